"""Which endpoint is asked next, on a clock that stands still unless it is told to move on."""

from collections.abc import Callable, Iterator

import pytest

from holdfast.engines.etcd.connection import Cluster, Connections, Failover, NoAnswer

ELECTING = NoAnswer("no leader", electing=True)
CLOSED = NoAnswer("connection refused")
SILENT = NoAnswer("did not answer in time")


class Time:
    """An instant."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def connections() -> Iterator[Connections]:
    connections = Connections(Cluster(("a", "b", "c")), lambda event: None)
    yield connections
    for connection in connections.close():
        connection.channel.close()


def ask(
    endpoints: Failover, clock: Time, answers: Callable[[str], NoAnswer], most: int = 20
) -> list[str]:
    """Who is asked, if that is what they say. An endpoint that is silent takes all its time."""
    asked: list[str] = []
    for connection, give_up_at in endpoints:
        error = answers(connection.name)
        asked.append(connection.name)
        pause = endpoints.failed(connection, error)
        clock.now = give_up_at if error is SILENT else clock.now + pause
        if len(asked) == most:
            break
    return asked


def test_an_election_is_waited_out_though_a_member_is_dead(
    connections: Connections, clock: Time
) -> None:
    """The dead one is the first, so it is the last of the first round as well."""
    says = {"a": CLOSED, "b": ELECTING, "c": ELECTING}
    asked = ask(Failover(connections, clock, 1.0, once=False), clock, says.__getitem__)
    assert asked[:8] == ["a", "b", "c", "a", "b", "c", "b", "c"]
    assert clock.now >= 1.0, "it gave up while there was time"


def test_a_silent_member_does_not_use_up_the_time_of_an_election(
    connections: Connections, clock: Time
) -> None:
    says = {"a": SILENT, "b": ELECTING, "c": ELECTING}
    asked = ask(Failover(connections, clock, 16.0, once=False), clock, says.__getitem__)
    assert asked[:7] == ["a", "b", "c", "a", "b", "c", "b"]
    assert clock.now < 14.0, "it had half of the time, and then half of what was left"


def test_who_goes_silent_is_not_asked_again(connections: Connections, clock: Time) -> None:
    endpoints = Failover(connections, clock, 1000.0, once=False)
    says = {"a": iter([ELECTING, SILENT]), "b": iter([CLOSED]), "c": iter([CLOSED])}
    assert ask(endpoints, clock, lambda name: next(says[name])) == ["a", "b", "c", "a"]
    assert dict(endpoints.failure.nodes) == {
        "a": "did not answer in time",
        "b": "connection refused",
        "c": "connection refused",
    }


def test_closed_doors_are_not_waited_for(connections: Connections, clock: Time) -> None:
    assert ask(Failover(connections, clock, 1.0, once=False), clock, lambda name: CLOSED) == [
        *"abca"
    ]
    assert clock.now == 0.0


def test_what_may_have_been_done_is_asked_once(connections: Connections, clock: Time) -> None:
    assert ask(Failover(connections, clock, 1.0, once=True), clock, lambda name: ELECTING) == ["a"]


def test_one_endpoint_has_all_the_time(clock: Time) -> None:
    connections = Connections(Cluster(("a",)), lambda event: None)
    assert [until for _, until in Failover(connections, clock, 1.0, once=False)] == [1.0, 1.0]
    asked = ask(Failover(connections, clock, 1.0, once=False), clock, lambda name: ELECTING)
    assert len(asked) > 5
    assert clock.now >= 1.0
    [connection] = connections.close()
    connection.channel.close()


def test_it_is_asked_at_least_once(connections: Connections, clock: Time) -> None:
    """However little time there is: to find that out is the business of the call itself."""
    clock.now = 2.0
    assert ask(Failover(connections, clock, 1.0, once=False), clock, lambda name: SILENT) == ["a"]
