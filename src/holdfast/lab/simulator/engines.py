"""The engines that can be simulated: their servers and stores, and what runs are like with them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from math import inf

from holdfast.core.ports import node_timeout
from holdfast.lab.simulator.client import Client
from holdfast.lab.simulator.server import BaseServer
from holdfast.lab.simulator.store import Store, Wiring
from holdfast.options import nearest_ttl


@dataclass(frozen=True, slots=True)
class SimulatedEngine:
    """What differs from engine to engine."""

    servers: type[BaseServer]
    store: Callable[[Client, Wiring], Store]
    drift: Callable[[float], float]
    ttls: tuple[float, ...]
    min_ttl: float
    ttl_step: float = 0.0
    sizes: tuple[int, ...] = (1,)
    """How many servers there are."""
    seconds: float = 5.0
    """How long faults happen."""
    request_timeout: Callable[[float], float] = node_timeout
    """How long a client waits for one of several servers, by the ttl."""
    loses_data: bool = True
    """Whether one of several servers may restart without its data."""
    lengthens: float = inf
    """By how much longer, at most, a lease lasts when the clock of a server is set back; 0: servers
    do not go by a clock that can be set."""
    fair: bool = False
    """Whether waiters get the lock in the order of their arrival."""
    busy: float = 0.4
    """How likely it is that one more task shares a client."""
    lingers: float = 0.0
    """How long a lock may stay taken when its holder has learned of a loss."""

    @property
    def max_ttl(self) -> float:
        return max(self.ttls)

    def ttl(self, wanted: float) -> float:
        """The nearest that is allowed."""
        return nearest_ttl(wanted, self.min_ttl, self.max_ttl, self.ttl_step)


@cache
def engine(name: str) -> SimulatedEngine:
    """The engine of that name."""
    engines = {"redis": _redis, "etcd": _etcd, "zookeeper": _zookeeper, "sql": _sql}
    return engines[name]()


def _redis() -> SimulatedEngine:
    from holdfast.engines.redis import drift, quorum_node_timeout
    from holdfast.lab.simulator.redis.server import Server
    from holdfast.lab.simulator.redis.store import RedisStore

    return SimulatedEngine(
        servers=Server,
        store=RedisStore,
        drift=drift,
        ttls=(0.5, 1.0, 2.0),
        min_ttl=0.01,
        sizes=(1, 1, 1, 2, 3, 3, 3, 3, 3, 4, 5, 5),
        request_timeout=quorum_node_timeout,
    )


def _etcd() -> SimulatedEngine:
    from holdfast.engines.etcd import GUARANTEES, drift
    from holdfast.lab.simulator.etcd.server import EtcdServer
    from holdfast.lab.simulator.etcd.store import EtcdStore

    return SimulatedEngine(
        servers=EtcdServer,
        store=EtcdStore,
        drift=drift,
        ttls=(2.0, 3.0, 6.0),  # waiters have an etcd lease of at most 5 s
        min_ttl=GUARANTEES.min_ttl,
        ttl_step=GUARANTEES.ttl_step,
        sizes=(1, 1, 3),
        seconds=15.0,
        loses_data=False,
        lengthens=0.0,
        fair=True,
        busy=0.7,
        lingers=7.0,
    )


def _zookeeper() -> SimulatedEngine:
    from holdfast.engines.zookeeper import drift, guarantees
    from holdfast.engines.zookeeper.connection import Servers
    from holdfast.engines.zookeeper.sessions import Terms
    from holdfast.lab.simulator.zookeeper.ensemble import TICK
    from holdfast.lab.simulator.zookeeper.server import ZooKeeperServer
    from holdfast.lab.simulator.zookeeper.store import ZooKeeperStore

    promised = guarantees(TICK, None)
    return SimulatedEngine(
        servers=ZooKeeperServer,
        store=ZooKeeperStore,
        drift=partial(drift, Terms(Servers(()), TICK)),
        ttls=(1.0, 1.5, 3.0),
        min_ttl=promised.min_ttl,
        ttl_step=promised.ttl_step,
        sizes=(1, 3, 3),
        seconds=8.0,
        loses_data=False,
        lengthens=0.0,
        fair=True,
        busy=0.7,
        lingers=4.0,  # a session ends with its ttl, and up to a tick later
    )


def _sql() -> SimulatedEngine:
    from holdfast.engines.sql.engine import drift
    from holdfast.engines.sql.postgres import GUARANTEES
    from holdfast.lab.simulator.sql.server import SqlServer
    from holdfast.lab.simulator.sql.store import SqlStore

    return SimulatedEngine(
        servers=SqlServer,
        store=SqlStore,
        drift=drift,
        ttls=(0.5, 1.0, 2.0),
        min_ttl=GUARANTEES.min_ttl,
        loses_data=False,
        lengthens=2.0,
        fair=True,
        busy=0.7,
    )
