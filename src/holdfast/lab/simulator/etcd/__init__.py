"""A virtual etcd, and the store of a client over it."""

from holdfast.engines.etcd import GUARANTEES, drift
from holdfast.lab.simulator.engines import SimulatedEngine
from holdfast.lab.simulator.etcd.server import EtcdServer
from holdfast.lab.simulator.etcd.store import EtcdStore

ENGINE = SimulatedEngine(
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
