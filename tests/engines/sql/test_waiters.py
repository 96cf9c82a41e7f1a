"""The queue of waiters on PostgreSQL and MariaDB: what dies in it, and clients behind a pooler."""

import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from holdfast.core.effects import Sleep
from holdfast.core.messages import OFFER, Acquire, Done, Granted, Held, Release
from holdfast.core.ports import StoreHost
from holdfast.drivers.common import clock
from holdfast.engines import open_engine
from holdfast.engines.sql import commands, mysql
from holdfast.engines.sql.connection import RefusedError
from holdfast.engines.sql.dialect import MICROSECONDS
from holdfast.engines.sql.exchanges import Open
from holdfast.engines.sql.postgres.waiters import LONGEST_PAUSE, RECONNECT_AFTER, ListeningWaiters
from holdfast.engines.sql.waiters import LONGEST_LIFE
from holdfast.options import read_options
from tests.contract.interrupting import Interruption
from tests.engines.redis.party import Party
from tests.engines.sql.databases import Database
from tests.equipment.descriptors import free_descriptors
from tests.equipment.servers.postgres import PostgresServer
from tests.patience import wait_for

pytestmark = pytest.mark.slow

BOTH = pytest.mark.parametrize("kind", ["postgres", "mariadb"])
KEY = "holdfast:job"

DEAD = {
    "postgres": """
        INSERT INTO holdfast_leases_waiters (holder, name, place, listener, pid, alive_until)
        SELECT decode('dead' || n, 'escape'), 'holdfast:job', n, 'nowhere', 99999999, 0
        FROM generate_series(1, 1200) AS n
    """,
    "mariadb": """
        INSERT INTO holdfast_leases_waiters (holder, name, place, alive_until)
        SELECT CONCAT('dead', seq), 'holdfast:job', seq, 0 FROM seq_1_to_1200
    """,
}


class Asker:
    """The store of an engine, asked by blocking."""

    def __init__(self, url: str) -> None:
        options = read_options(url, prefix=None, ttl=None, retry=None, engine={})
        self.woken: list[str] = []
        host = StoreHost(clock, self.woken.append, lambda event: None)
        self._store = open_engine(options.url, options.engine).connect(host)
        self.close = self._store.close

    def __call__(self, request: Any) -> Any:
        return self._store.ask([request], clock() + 15)[0]

    def queues(self, holder: str) -> Held:
        """Join the queue, or ask again from it."""
        answer = self(Acquire(KEY, holder, 60.0, queue=True))
        assert isinstance(answer, Held)
        return answer


@BOTH
def test_behind_1200_waiters_of_a_killed_process(database: Database, kind: str) -> None:
    ask = Asker(database.url)
    assert isinstance(ask(Acquire(KEY, "ann", 60.0)), Granted)
    database.query(DEAD[kind])
    database.query("UPDATE holdfast_leases SET queued = (1 = 1)")
    assert isinstance(ask(Acquire(KEY, "ben", 60.0, queue=True)), Held)
    assert isinstance(ask(Release(KEY, "ann")), Done)
    assert isinstance(ask(Acquire(KEY, "ben", 60.0, queue=True)), Granted)
    assert database.query("SELECT COUNT(*) FROM holdfast_leases_waiters") == [(0,)]
    assert isinstance(ask(Release(KEY, "ben")), Done)
    ask.close()


def test_an_interruption_never_loses_a_permit_to_connect(postgres: PostgresServer) -> None:
    """There is but one: a client that has lost it answers nobody any more."""
    ask = Asker(f"{postgres.url}?connections=1")
    for line in count():
        interruption = Interruption(line, ("sql/threads.py",), functions=("ask", "do", "_enter"))
        with suppress(KeyboardInterrupt), interruption:
            ask(Acquire(KEY, "ann", 60.0))
        assert isinstance(ask(Acquire(KEY, "ann", 60.0)), Granted), interruption.where
        if not interruption.happened:
            break
    assert line >= 5
    ask.close()


@BOTH
def test_an_interruption_never_leaves_a_connection_behind(
    database: Database, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mysql.connection, "IDLE", -1.0)  # each is pinged
    ask = Asker(f"{database.url}?connections=1")
    for line in count():
        interruption = Interruption(line, ("engines/sql/",), functions=("_take", "is_usable"))
        with suppress(KeyboardInterrupt), interruption:
            ask(Acquire(KEY, "ann", 60.0))
        assert isinstance(ask(Acquire(KEY, "ann", 60.0)), Granted), interruption.where
        wait_for(lambda: len(database.other_sessions()) <= 1)
        if not interruption.happened:
            break
    assert line >= 5
    ask.close()


@BOTH
def test_a_newcomer_does_not_overtake(
    database: Database, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(commands.CONSTANTS, "offer", 60 * MICROSECONDS)
    ask, late = Asker(database.url), Asker(database.url)
    assert isinstance(ask(Acquire(KEY, "ann", 60.0)), Granted)
    wait_for(lambda: ask.queues("ben").wakes or kind == "mariadb")
    assert isinstance(ask(Release(KEY, "ann")), Done)
    assert isinstance(late(Acquire(KEY, "cleo", 60.0)), Held)
    assert isinstance(late(Acquire(KEY, "cleo", 60.0, queue=True)), Held)
    wait_for(lambda: "ben" in ask.woken)
    assert isinstance(ask(Acquire(KEY, "ben", 60.0, queue=True)), Granted)
    ask.close()
    late.close()


@pytest.mark.parametrize("kind", ["mariadb"])
@pytest.mark.parametrize(("shares", "table"), [(1, "leases"), (0, "leases_members")])
def test_a_waiter_that_polls_has_its_offer_for_its_life(
    database: Database, shares: int, table: str
) -> None:
    ask = Asker(database.url)
    assert isinstance(ask(Acquire(KEY, "ann", 60.0)), Granted)
    assert isinstance(ask(Acquire(KEY, "ben", 60.0, queue=True, shares=shares)), Held)
    assert isinstance(ask(Release(KEY, "ann")), Done)
    [(ttl,)] = database.query(f"SELECT ttl FROM holdfast_{table}")
    assert OFFER < ttl / MICROSECONDS <= LONGEST_LIFE
    assert isinstance(ask(Acquire(KEY, "ben", 60.0, queue=True, shares=shares)), Granted)
    ask.close()


@BOTH
def test_a_waiter_that_was_late_keeps_its_place(database: Database, kind: str) -> None:
    """It was taken for dead, since its process stood still, or its listener was away."""
    ask, other = Asker(database.url), Asker(database.url)
    assert isinstance(ask(Acquire(KEY, "ann", 60.0)), Granted)
    assert isinstance(ask(Acquire(KEY, "ben", 60.0, queue=True)), Held)
    assert isinstance(other(Acquire(KEY, "cleo", 60.0, queue=True)), Held)
    assert isinstance(other(Acquire(KEY, "dora", 60.0, queue=True)), Held)
    database.query("DELETE FROM holdfast_leases_waiters WHERE holder = 'ben'")
    assert isinstance(ask(Release(KEY, "ann")), Done)
    if kind == "mariadb":
        assert isinstance(other(Acquire(KEY, "dora", 60.0, queue=True)), Held)
    assert isinstance(other(Acquire(KEY, "cleo", 60.0, queue=True)), Granted)
    assert isinstance(ask(Acquire(KEY, "ben", 60.0, queue=True)), Held)
    assert isinstance(other(Acquire(KEY, "dora", 60.0, queue=True)), Held)
    assert isinstance(other(Release(KEY, "cleo")), Done)
    assert isinstance(other(Acquire(KEY, "dora", 60.0, queue=True)), Held), "ben came before"
    assert isinstance(ask(Acquire(KEY, "ben", 60.0, queue=True)), Granted)
    ask.close()
    other.close()


def test_without_a_free_descriptor_waiters_poll(postgres: PostgresServer) -> None:
    ask = Asker(postgres.url)
    assert isinstance(ask(Acquire(KEY, "ann", 60.0)), Granted)
    with free_descriptors(0):
        assert not ask.queues("ben").wakes
    wait_for(lambda: ask.queues("ben").wakes)  # it listens once there is a descriptor
    ask.close()


@pytest.mark.parametrize("runs", ["before", "after"])
def test_a_listener_whose_start_was_interrupted_ends(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, runs: str
) -> None:
    """A Ctrl-C came while the thread was started, so that another is started by the next waiter."""
    start, started = threading.Thread.start, list[threading.Thread]()

    def is_interrupted(thread: threading.Thread) -> None:
        started.append(thread)
        if runs == "before":
            start(thread)
        raise KeyboardInterrupt

    ask = Asker(postgres.url)
    assert isinstance(ask(Acquire(KEY, "ann", 60.0)), Granted)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", is_interrupted)
        with pytest.raises(KeyboardInterrupt):
            ask.queues("ben")
    wait_for(lambda: ask.queues("ben").wakes)
    ask.close()
    [thread] = started
    if runs == "after":
        start(thread)
    wait_for(lambda: not thread.is_alive())


def test_a_listener_connects_less_often_while_refused() -> None:
    steps = ListeningWaiters(lambda: 0.0, lambda holder: None, list).listen("channel")
    pauses = []
    for _ in range(8):
        assert isinstance(next(steps), Open)
        sleep = steps.throw(RefusedError("no connection left"))
        assert isinstance(sleep, Sleep)
        pauses.append(sleep.until)
    assert pauses[0] == RECONNECT_AFTER
    assert pauses[-1] == LONGEST_PAUSE
    assert pauses == sorted(pauses)


def test_a_listener_that_reconnects_keeps_its_place(postgres: Any) -> None:
    ann, ben, cleo = (Party("sync", postgres.url) for _ in range(3))
    lease = ann.takes(ttl=60)
    served: list[str] = []

    def queue(party: Party, name: str) -> Any:
        def wait() -> None:
            with party.client.lock("job", ttl=60, timeout=20):
                served.append(name)

        return party.begin(wait)

    def there_are(waiters: int) -> Callable[[], bool]:
        return lambda: ann(ann.client.inspect, "job").waiters == waiters

    first = queue(ben, "ben")
    wait_for(there_are(1))
    [(pid,)] = postgres.query("SELECT pid FROM holdfast_leases_waiters")
    second = queue(cleo, "cleo")
    wait_for(there_are(2))
    postgres.query("SELECT pg_terminate_backend(%s, 5000)", (pid,))
    wait_for(
        lambda: (
            postgres.query("SELECT 1 FROM holdfast_leases_waiters WHERE pid IN (0, %s)", (pid,))
            == []
        )
    )
    ann(lease.release)
    first.result(20)
    second.result(20)
    assert served == ["ben", "cleo"]
    for party in (ann, ben, cleo):
        party.close()


def test_behind_a_pooler_clients_queue_like_all_others(postgres: Any, pgbouncer: Any) -> None:
    ann, pooled, direct = (
        Party("sync", url) for url in (postgres.url, pgbouncer.url, postgres.url)
    )
    lease = ann.takes(ttl=60)
    served: list[str] = []

    def queue(party: Party, name: str) -> Any:
        def wait() -> None:
            with party.client.lock("job", ttl=60, timeout=30):
                served.append(name)

        return party.begin(wait)

    waiting = []
    for number, (party, name) in enumerate(
        [(pooled, "1"), (direct, "2"), (pooled, "3"), (direct, "4")], 1
    ):
        waiting.append(queue(party, name))

        def has_come(number: int = number) -> bool:
            return bool(ann(ann.client.inspect, "job").waiters == number)

        wait_for(has_come)
    ann(lease.release)
    for each in waiting:
        each.result(30)
    assert served == ["1", "2", "3", "4"]
    for party in (ann, pooled, direct):
        party.close()
