"""Which endpoint is asked next, on a clock that stands still unless it is told to move on."""

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from holdfast.core.effects import Sleep, perform
from holdfast.core.messages import Failed, Inspect, Request, Write
from holdfast.core.ports import StoreHost
from holdfast.engines.etcd.connection import Cluster, Connections, NoAnswer
from holdfast.engines.etcd.exchanges import Exchanges, Send

ELECTING = NoAnswer("no leader", electing=True)
CLOSED = NoAnswer("connection refused")
SILENT = NoAnswer("did not answer in time")
READING = Inspect("door")
WRITING = Write("door", "value", 0)


class Endpoints:
    """Endpoints of which none answers. One that is silent takes all its time."""

    def __init__(self, *names: str) -> None:
        self.now = 0.0
        self.connections = Connections(Cluster(names), lambda event: None)
        host = StoreHost(lambda: self.now, lambda holder: None, lambda event: None)
        self._exchanges = Exchanges(self.connections, host, {})

    def ask(
        self,
        until: float,
        answers: Callable[[str], NoAnswer],
        request: Request = READING,
        most: int = 20,
    ) -> list[str]:
        """Which ones a request is sent to, if that is what they answer."""
        self.asked: list[str] = []
        self.times: list[float] = []

        def do(effect: Send | Sleep) -> None:
            if isinstance(effect, Sleep):
                self.now = effect.until
                return
            if len(self.asked) == most:
                raise StopAsking
            name = effect.connection.name
            self.asked.append(name)
            self.times.append(effect.until)
            error = answers(name)
            if error is SILENT:
                self.now = effect.until
            raise error

        with suppress(StopAsking):
            [self.failure] = perform(self._exchanges.ask([request], until), do, NoAnswer)
        return self.asked

    @property
    def errors(self) -> dict[str, str]:
        """The last error of each endpoint."""
        assert isinstance(self.failure, Failed)
        return dict(self.failure.nodes)


class StopAsking(Exception):
    """That is enough."""


@pytest.fixture
def three() -> Iterator[Endpoints]:
    endpoints = Endpoints("a", "b", "c")
    yield endpoints
    for connection in endpoints.connections.close():
        connection.channel.close()


@pytest.fixture
def one() -> Iterator[Endpoints]:
    endpoints = Endpoints("a")
    yield endpoints
    for connection in endpoints.connections.close():
        connection.channel.close()


def test_an_election_is_waited_out_though_a_member_is_dead(three: Endpoints) -> None:
    """The dead one is the first, so it is the last of the first round as well."""
    says = {"a": CLOSED, "b": ELECTING, "c": ELECTING}
    assert three.ask(1.0, says.__getitem__)[:8] == ["a", "b", "c", "a", "b", "c", "b", "c"]
    assert three.now >= 1.0, "it gave up while there was time"


def test_a_silent_member_does_not_use_up_the_time_of_an_election(three: Endpoints) -> None:
    says = {"a": SILENT, "b": ELECTING, "c": ELECTING}
    assert three.ask(16.0, says.__getitem__)[:7] == ["a", "b", "c", "a", "b", "c", "b"]
    assert three.now < 14.0, "it had half of the time, and then half of what was left"


def test_who_goes_silent_is_not_asked_again(three: Endpoints) -> None:
    says = {"a": iter([ELECTING, SILENT]), "b": iter([CLOSED]), "c": iter([CLOSED])}
    assert three.ask(1000.0, lambda name: next(says[name])) == ["a", "b", "c", "a"]
    assert three.errors == {
        "a": "did not answer in time",
        "b": "connection refused",
        "c": "connection refused",
    }


def test_closed_doors_are_not_waited_for(three: Endpoints) -> None:
    assert three.ask(1.0, lambda name: CLOSED) == [*"abca"]
    assert three.now == 0.0


def test_what_may_have_been_done_is_asked_once(three: Endpoints) -> None:
    assert three.ask(1.0, lambda name: ELECTING, WRITING) == ["a"]


def test_one_endpoint_has_all_the_time(one: Endpoints) -> None:
    one.ask(1.0, lambda name: CLOSED)
    assert one.times == [1.0, 1.0]
    one.now = 0.0
    assert len(one.ask(1.0, lambda name: ELECTING)) > 5
    assert one.now >= 1.0


def test_it_is_asked_at_least_once(three: Endpoints) -> None:
    """However little time there is: to find that out is the business of the call itself."""
    three.now = 2.0
    assert three.ask(1.0, lambda name: SILENT) == ["a"]
