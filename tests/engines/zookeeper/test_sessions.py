"""What is known of a session: from when on the leader surely counts its time."""

from collections.abc import Iterator
from random import Random

import pytest

from holdfast.engines.zookeeper.connection import Connection, Servers
from holdfast.engines.zookeeper.sessions import Session, Terms
from holdfast.lab.servers.process import free_port

TICK = 1.0


@pytest.fixture
def session(clock: "Clock") -> Iterator[Session]:
    """One that nobody answers: what it is told here is all that it knows."""
    servers = Servers((f"127.0.0.1:{free_port()}",))
    terms = Terms(servers, TICK)
    session = Session(terms, 8.0, clock, lambda session: None, Connection, Random())
    yield session
    session.end()


class Clock:
    """One that is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_what_was_answered_is_not_known_yet(session: Session) -> None:
    session.answered(100.0)
    assert not session.is_fresh(100.0)


def test_it_is_known_when_something_later_is_answered(session: Session, clock: Clock) -> None:
    session.answered(100.0)
    clock.now = 101.0
    session.answered(100.9)
    assert session.known_at < 100.0
    session.answered(101.0)
    assert session.known_at == 100.0
    clock.now = 102.5
    session.answered(102.5)
    assert session.known_at == 101.0


def test_requests_that_may_have_arrived_together_prove_nothing(
    session: Session, clock: Clock
) -> None:
    """They were sent far apart, and answered at once: the network was held up."""
    clock.now = 105.0
    session.answered(101.0)
    session.answered(103.0)
    session.answered(105.0)
    assert session.known_at < 101.0
    session.answered(106.0)
    assert session.known_at == 105.0


def test_an_old_proof_is_good_for_the_margin_only(session: Session) -> None:
    session.answered(100.0)
    session.answered(101.0)
    assert session.is_fresh(102.0)
    assert not session.is_fresh(102.1)


def test_a_new_connection_is_the_leaders_own_word(session: Session) -> None:
    session.answered(90.0)
    session._opening(2.0)
    session._opened(7, 8.0)
    assert session.known_at == 100.0
    session.answered(100.5)
    assert session.known_at == 100.0, "what another server was told is forgotten"
