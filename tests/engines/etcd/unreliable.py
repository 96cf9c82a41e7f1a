"""A store whose calls can be lost: on the way there, on the way back, or until later."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from holdfast.core.messages import Answer, Request
from holdfast.core.ports import Clock, StoreHost
from holdfast.drivers.common import clock
from holdfast.engines.etcd import _cluster
from holdfast.engines.etcd.commands import Call
from holdfast.engines.etcd.connection import Connection, NoAnswer
from holdfast.engines.etcd.threads import EtcdStore
from tests.equipment.servers.etcd import EtcdServer

Step = list[Call]
Fate = Literal["request lost", "reply lost", "late", "none"]


@dataclass
class Loss:
    """What becomes of the steps of an exchange, from number `first` on, up to `end`."""

    first: int
    fate: Fate
    end: int
    seen: int = 0
    late: list[Callable[[], Any]] = field(default_factory=list)

    def arrive(self) -> None:
        """What was on its way arrives at last."""
        for perform in self.late:
            perform()


class UnreliableStore(EtcdStore):
    """It asks a real server, but not every call gets through."""

    loss: Loss | None = None

    @property
    def clock(self) -> Clock:
        """The one that its requests end by."""
        return self._clock

    def _send(self, step: Step, connection: Connection, until: float) -> Any:
        loss = self.loss
        if loss is None:
            return super()._send(step, connection, until)
        number, loss.seen = loss.seen, loss.seen + 1
        if loss.fate == "none" or not loss.first <= number < loss.end:
            return super()._send(step, connection, until)
        if loss.fate == "reply lost":
            super()._send(step, connection, until)
        elif loss.fate == "late":
            later = clock() + 10
            loss.late.append(lambda: EtcdStore._send(self, step, connection, later))
        raise NoAnswer("lost")

    @contextmanager
    def losing(self, first: int, fate: Fate, end: int = 1000) -> Iterator[Loss]:
        """Meanwhile, each step from that number on is lost, up to the one of number `end`. There
        must be one to lose; with the fate "none", there must be exactly so many steps before."""
        self.loss = loss = Loss(first, fate, end)
        yield loss
        self.loss = None
        assert loss.seen == first if fate == "none" else loss.seen > first


@contextmanager
def store_on(server: EtcdServer, clock: Clock = clock) -> Iterator[UnreliableStore]:
    """A store of that server, and no waiter to be woken."""
    host = StoreHost(clock, lambda holder: None, lambda event: None)
    store = UnreliableStore(_cluster(urlsplit(server.url), {}), host, {})
    yield store
    store.close()


def ask(store: UnreliableStore, request: Request) -> Answer:
    """The answer to one request, which has some seconds of the store's own clock."""
    [answer] = store.ask((request,), store.clock() + 10)
    return answer
