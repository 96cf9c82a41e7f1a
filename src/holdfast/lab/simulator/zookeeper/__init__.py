"""A virtual ZooKeeper, and the store of a client over it."""

from functools import partial

from holdfast.engines.zookeeper import drift, guarantees
from holdfast.engines.zookeeper.connection import Servers
from holdfast.engines.zookeeper.sessions import Terms
from holdfast.lab.simulator.engines import SimulatedEngine
from holdfast.lab.simulator.zookeeper.ensemble import TICK
from holdfast.lab.simulator.zookeeper.server import ZooKeeperServer
from holdfast.lab.simulator.zookeeper.store import ZooKeeperStore

PROMISED = guarantees(TICK, None)

ENGINE = SimulatedEngine(
    servers=ZooKeeperServer,
    store=ZooKeeperStore,
    drift=partial(drift, Terms(Servers(()), TICK)),
    ttls=(1.0, 1.5, 3.0),
    min_ttl=PROMISED.min_ttl,
    ttl_step=PROMISED.ttl_step,
    sizes=(1, 3, 3),
    seconds=8.0,
    loses_data=False,
    lengthens=0.0,
    fair=True,
    joins_at_once=frozenset((1, 3)),
    busy=0.7,
    lingers=4.0,  # a session ends with its ttl, and up to a tick later
)
