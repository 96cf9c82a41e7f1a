"""A server whose clock is set while leases are held."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.messages import Acquire, Done, Extend, Granted, Held
from holdfast.lab.servers.clock import Clock
from holdfast.lab.servers.process import ServerProcess
from tests.engines.redis.party import Party
from tests.engines.sql.test_waiters import Asker
from tests.equipment.servers.mariadb import MariaDbServer
from tests.equipment.servers.postgres import PostgresServer
from tests.equipment.servers.unprivileged import give_to_user
from tests.patience import wait_for

pytestmark = pytest.mark.slow

HOUR = 3600.0


def with_clock(kind: type[ServerProcess], folder: Path) -> tuple[Any, Clock]:
    """A server that goes by a clock of its own."""
    folder.chmod(0o755)
    moved = Clock(folder / "clock")
    (folder / "clock").chmod(0o666)
    give_to_user(folder / "clock")

    class Moved(kind):  # type: ignore[valid-type, misc]  # of either kind
        def arguments(self) -> list[str]:
            return moved.given_to(super().arguments())

    return Moved(), moved


@pytest.fixture(scope="module", params=[PostgresServer, MariaDbServer], ids=["postgres", "mariadb"])
def server(request: pytest.FixtureRequest) -> Iterator[tuple[Any, Clock]]:
    """One for all tests, so each has names of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,  # where the server's user can read
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("XDG_CACHE_HOME", folder)
        server, moved = with_clock(request.param, Path(folder))
        with server:
            yield server, moved


def test_set_back_by_an_hour(server: tuple[Any, Clock]) -> None:
    """A dead holder's lease lasts no longer than its ttl, a living one's is renewed as before, and
    waiters that poll are taken neither for dead nor for alive forever."""
    database, moved = server
    ann, ben = Party("sync", database.url), Party("sync", database.url)
    ask = Asker(database.url)
    dead = ask(Acquire("holdfast:dead", "dan", 4.0))
    ask.close()  # without a release: a client would release what it has lost
    alive = ann.takes("alive", ttl=2.0)
    waiting = ben.begin(ben.client.lock("dead", ttl=20).acquire, timeout=30)
    wait_for(lambda: ann(ann.client.inspect, "dead").waiters == 1)
    moved.jump(-HOUR)
    mine = waiting.result(40)
    assert mine, "a dead holder's lease outlived its ttl"
    assert mine.fence > dead.fence
    assert ann(ann.client.inspect, "alive").remaining <= 2.0
    assert alive.held
    ann(alive.release)
    again = ben.tries("alive")
    assert again.fence > alive.fence, "fences grow although the clock fell"
    ann.close()
    ben.close()


def test_set_forward_by_an_hour(server: tuple[Any, Clock]) -> None:
    """Leases end early, which `guarantees` say; the lock can be taken at once."""
    database, moved = server
    ann = Party("sync", database.url)
    assert ann.takes("kept", ttl=30)
    ben = Party("sync", database.url)
    assert not ben.tries("kept")
    moved.jump(HOUR)
    assert ben.tries("kept")
    ben.close()
    ann.close()


def test_an_extension_after_it_was_set_back(server: tuple[Any, Clock]) -> None:
    database, moved = server
    ask = Asker(database.url)
    assert isinstance(ask(Acquire("job", "ann", 30.0)), Granted)
    [(before,)] = database.query("SELECT CURRENT_TIMESTAMP")
    moved.jump(-HOUR)
    [(after,)] = database.query("SELECT CURRENT_TIMESTAMP")
    assert (before - after).total_seconds() > HOUR / 2, "it really was set"
    assert isinstance(ask(Extend("job", "ann", 2.0)), Done)
    held = ask(Acquire("job", "ben", 30.0))
    assert isinstance(held, Held)
    assert 20 < held.remaining <= 30, "neither shortened nor an hour longer"
    ask.close()
