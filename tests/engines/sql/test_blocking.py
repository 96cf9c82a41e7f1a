"""A store for threads that is closed while one of them asks."""

from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest

from holdfast.core.messages import Acquire, Failed
from holdfast.engines.sql.blocking import ServerStore
from holdfast.engines.sql.conversation import Speech
from holdfast.engines.sql.links import BrokenError, ConflictError, Link, Row
from holdfast.engines.sql.mysql.server import Silence
from holdfast.engines.sql.waiting import Waiting
from tests.engines.sql.test_aio import Words

TAKE = Acquire("job", "ann", 60.0)


class Connection:
    """One that breaks when it is asked, since it is closed just then."""

    def __init__(self, when_asked: Callable[[], None]) -> None:
        self._when_asked = when_asked
        self.closed = False

    def is_well(self) -> bool:
        return not self.closed

    def exchange(self, statement: Any, until: float) -> list[Row]:
        self._when_asked()
        raise BrokenError("the socket is closed")

    def drain(self, until: float) -> None:
        raise AssertionError("nobody was interrupted")

    def close(self) -> None:
        self.closed = True

    forget = close


class Server:
    """One that calls back at two moments."""

    clock = staticmethod(monotonic)

    def __init__(self, moments: "dict[str, Callable[[], None]]") -> None:
        self._moments = moments
        self.speech: Speech = Words()
        self.waiting = Waiting(lambda holder: None)
        self.connections: list[Connection] = []

    def open(self, until: float) -> Link:
        self._moments.get("connecting", _nothing)()
        self.connections.append(Connection(self._moments.get("asking", _nothing)))
        return self.connections[-1]

    def listen(self) -> Silence:
        return Silence()

    def leave(self) -> None:
        pass

    def forget(self) -> None:
        pass


def _nothing() -> None:
    pass


@pytest.mark.parametrize("moment", ["connecting", "asking"])
def test_whoever_still_asks_when_the_store_is_closed_is_told_so(moment: str) -> None:
    server = Server({moment: lambda: store.close()})
    store = ServerStore(server, connections=1)
    [failed] = store.ask([TAKE], monotonic() + 60)
    assert isinstance(failed, Failed)
    assert "the client was closed" in str(failed)
    assert all(connection.closed for connection in server.connections)


def test_nothing_is_said_on_a_connection_that_was_closed() -> None:
    """It may be one of a user's pool, who has it back, and somebody else uses it."""

    class Closed(Connection):
        said = 0

        def exchange(self, statement: Any, until: float) -> list[Row]:
            self.said += 1
            store.close()
            raise ConflictError("it is to be said again")

    server = Server({})
    lent = Closed(_nothing)
    server.open = lambda until: lent  # type: ignore[method-assign]
    store = ServerStore(server, connections=1)
    [failed] = store.ask([TAKE], monotonic() + 60)
    assert "the client was closed" in str(failed)
    assert lent.said == 1
