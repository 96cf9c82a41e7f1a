"""A virtual PostgreSQL, and the store of a client over it."""

from holdfast.engines.sql.engine import drift
from holdfast.engines.sql.postgres import GUARANTEES
from holdfast.engines.sql.waiters import LONGEST_LIFE, SHORTEST_LIFE
from holdfast.lab.simulator.engines import SimulatedEngine
from holdfast.lab.simulator.sql.server import SqlServer
from holdfast.lab.simulator.sql.store import SqlStore

ENGINE = SimulatedEngine(
    servers=SqlServer,
    store=SqlStore,
    drift=drift,
    ttls=(0.5, 1.0, 2.0),
    min_ttl=GUARANTEES.min_ttl,
    loses_data=False,
    lengthens=2.0 + LONGEST_LIFE - SHORTEST_LIFE,  # a lease, and the turn of a dead poller
    fair=True,
    busy=0.7,
)
