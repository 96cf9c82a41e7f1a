"""A virtual Redis, and the store of a client over it."""

from holdfast.engines.redis import drift, quorum_node_timeout
from holdfast.lab.simulator.engines import SimulatedEngine
from holdfast.lab.simulator.redis.server import Server
from holdfast.lab.simulator.redis.store import RedisStore

ENGINE = SimulatedEngine(
    servers=Server,
    store=RedisStore,
    drift=drift,
    ttls=(0.5, 1.0, 2.0),
    min_ttl=0.01,
    sizes=(1, 1, 1, 2, 3, 3, 3, 3, 3, 4, 5, 5),
    quorum_timeout=quorum_node_timeout,
    joins_at_once=frozenset((1,)),
)
