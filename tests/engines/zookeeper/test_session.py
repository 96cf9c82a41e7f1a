"""What is known of a session: from when on the leader surely counts its time."""

from collections.abc import Iterator

import pytest

from holdfast.engines.zookeeper.phrases import sync
from holdfast.engines.zookeeper.session import Session, Terms
from holdfast.engines.zookeeper.wire import Servers
from holdfast.lab.servers.ports import free_port
from tests.patience import wait_for

TICK = 1.0


@pytest.fixture
def session() -> Iterator[Session]:
    """One that nobody answers: what it is told here is all that it knows."""
    servers = Servers((f"127.0.0.1:{free_port()}",))
    session = Session(Terms(servers, TICK), 8.0, lambda: 100.0, lambda session: None)
    yield session
    session.end()


def test_what_was_answered_is_not_known_yet(session: Session) -> None:
    session.answered(100.0)
    assert not session.is_surely_alive(100.0)


def test_it_is_known_when_something_later_is_answered(session: Session) -> None:
    session.answered(100.0)
    session.answered(100.9)
    assert session.known_at < 100.0
    session.answered(101.0)
    assert session.known_at == 100.0
    session.answered(102.5)
    assert session.known_at == 101.0


def test_an_old_proof_is_good_for_the_margin_only(session: Session) -> None:
    session.answered(100.0)
    session.answered(101.0)
    assert session.is_surely_alive(102.0)
    assert not session.is_surely_alive(102.1)


def test_a_new_connection_is_the_leaders_own_word(session: Session) -> None:
    session.answered(90.0)
    session._opening(2.0)
    session._opened(7, 8.0)
    assert session.known_at == 100.0
    session.answered(100.5)
    assert session.known_at == 100.0, "what another server was told is forgotten"


class Struck:
    """A bell that is rung just when a Ctrl-C strikes."""

    def send(self, data: bytes) -> int:
        raise KeyboardInterrupt


def test_a_ctrl_c_is_not_swallowed(session: Session) -> None:
    connection = session._wire._connection
    wait_for(lambda: session._wire.client_state == "CONNECTING")
    bell, connection._write_sock = connection._write_sock, Struck()
    try:
        with pytest.raises(KeyboardInterrupt):
            session.send(sync())
    finally:
        connection._write_sock = bell
