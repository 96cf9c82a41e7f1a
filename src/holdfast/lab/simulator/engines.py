"""The engines that can be simulated: their servers and stores, and what runs are like with them."""

from functools import cache

from holdfast.lab.simulator.wiring import SimulatedEngine


@cache
def engine(name: str) -> SimulatedEngine:
    """The engine of that name."""
    return {"redis": _redis, "etcd": _etcd, "sql": _sql}[name]()


def _redis() -> SimulatedEngine:
    from holdfast.engines.redis import drift, quorum_node_timeout
    from holdfast.lab.simulator.server import Server
    from holdfast.lab.simulator.store import Store

    return SimulatedEngine(
        servers=Server.several,
        store=Store,
        drift=drift,
        rate=drift(2.0) / 2.0,
        ttls=(0.5, 1.0, 2.0),
        min_ttl=0.01,
        max_ttl=2.0,
        sizes=(1, 1, 1, 2, 3, 3, 3, 3, 3, 4, 5, 5),
        request_timeout=quorum_node_timeout,
    )


def _etcd() -> SimulatedEngine:
    from holdfast.engines.etcd import GUARANTEES, drift
    from holdfast.lab.simulator.etcd.server import EtcdServer
    from holdfast.lab.simulator.etcd.store import EtcdStore

    return SimulatedEngine(
        servers=EtcdServer.cluster,
        store=EtcdStore,
        drift=drift,
        rate=0.01,
        ttls=(2.0, 3.0, 6.0),  # waiters have an etcd lease of 5 s at the most
        min_ttl=GUARANTEES.min_ttl,
        max_ttl=6.0,
        ttl_step=GUARANTEES.ttl_step,
        sizes=(1, 1, 3),
        seconds=15.0,
        loses_data=False,
        jumps=False,
        fair=True,
        busy=0.7,
        lingers=7.0,
    )


def _sql() -> SimulatedEngine:
    from holdfast.engines.sql.postgres import GUARANTEES, drift
    from holdfast.lab.simulator.sql.server import SqlServer
    from holdfast.lab.simulator.sql.store import SqlStore

    return SimulatedEngine(
        servers=SqlServer.several,
        store=SqlStore,
        drift=drift,
        rate=0.01,
        ttls=(0.5, 1.0, 2.0),
        min_ttl=GUARANTEES.min_ttl,
        max_ttl=2.0,
        loses_data=False,
        fair=True,
        busy=0.7,
    )
