"""Waiting for a lock in PostgreSQL: in order, woken by NOTIFY, and past those who died."""

import json
import math
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import psycopg

from holdfast.core.messages import OFFER, Release
from holdfast.engines.sql.clock import ServerClock
from holdfast.engines.sql.postgres.speech import Speech
from holdfast.engines.sql.postgres.statements import Statements
from holdfast.lab.servers.postgres import PostgresServer
from tests.engines.redis.party import Party
from tests.engines.sql.conftest import Invite
from tests.equipment.servers.pgbouncer import PgBouncer
from tests.patience import wait_for


def queued(server: PostgresServer) -> list[Any]:
    [(queue,)] = server.query("SELECT queue FROM holdfast_leases WHERE name = 'holdfast:job'")
    assert isinstance(queue, list)
    return queue


def has_waiters(server: PostgresServer, how_many: int) -> bool:
    return len(queued(server)) == how_many


def queue_up(server: PostgresServer, *parties: Party) -> "list[Future[Any]]":
    """Let them wait, one after the other."""
    waiting = []
    for party in parties:
        ahead = len(queued(server))
        waiting.append(party.begin(party.client.lock("job", ttl=60).acquire, timeout=30))
        wait_for(partial(has_waiters, server, ahead + 1))
    return waiting


@contextmanager
def stranger(server: PostgresServer) -> "Iterator[subprocess.Popen[str]]":
    """Another process that waits for the lock."""
    code = (
        "import sys, holdfast\n"
        "with holdfast.Client(sys.argv[1]) as client:\n"
        "    client.lock('job', ttl=60).acquire()\n"
        "    sys.stdin.read()\n"
    )
    ahead = len(queued(server))
    with subprocess.Popen(
        [sys.executable, "-c", code, server.url], stdin=subprocess.PIPE, text=True
    ) as process:
        wait_for(partial(has_waiters, server, ahead + 1))
        try:
            yield process
        finally:
            process.kill()


def test_waiters_are_served_in_the_order_of_their_arrival(
    postgres: PostgresServer, invite: Invite
) -> None:
    ann, *others = (invite(postgres.url) for _ in range(5))
    lease = ann.takes(ttl=60)
    waiting = queue_up(postgres, *others)
    fences = [lease.fence]
    ann(lease.release)
    for party, turn in zip(others, waiting, strict=True):
        mine = turn.result(20)
        assert not any(later.done() for later in waiting[waiting.index(turn) + 1 :])
        fences.append(mine.fence)
        party(mine.release)
    assert fences == sorted(set(fences))


def test_a_newcomer_does_not_come_before_those_who_wait(
    postgres: PostgresServer, invite: Invite
) -> None:
    ann, ben, cleo = (invite(postgres.url) for _ in range(3))
    lease = ann.takes(ttl=60)
    [waiting] = queue_up(postgres, ben)
    ann(lease.release)
    assert cleo.tries() is None
    ben(waiting.result(20).release)


def test_dead_waiters_are_passed_over_at_once(postgres: PostgresServer, invite: Invite) -> None:
    ann, ben = invite(postgres.url), invite(postgres.url)
    lease = ann.takes(ttl=60)
    for _ in range(2):
        with stranger(postgres):
            pass
    [waiting] = queue_up(postgres, ben)
    wait_for(lambda: ann(ann.client.inspect, "job").waiters == 1)  # the dead are not counted
    assert len(queued(postgres)) == 3
    ann(lease.release)
    mine = waiting.result(20)
    assert queued(postgres) == []
    assert mine.fence > lease.fence
    ben(mine.release)


def test_an_offer_that_is_not_taken_up_goes_to_the_next(
    postgres: PostgresServer, invite: Invite
) -> None:
    ann, ben = invite(postgres.url), invite(postgres.url)
    lease = ann.takes(ttl=60)
    with stranger(postgres) as stopped:
        stopped.send_signal(signal.SIGSTOP)
        [waiting] = queue_up(postgres, ben)
        ann(lease.release)
        mine = waiting.result(20 * OFFER)
        assert queued(postgres) == [], "it does not keep the first place"
        ben(mine.release)
        stopped.send_signal(signal.SIGCONT)


def test_who_leaves_the_queue_has_the_next_one_look_after_an_offer(
    postgres: PostgresServer, invite: Invite
) -> None:
    """The second was told how short the offer is. If it goes, the third must be told."""
    ann, ben, cleo = (invite(postgres.url) for _ in range(3))
    lease = ann.takes(ttl=60)
    _, waiting = queue_up(postgres, ben, cleo)
    bens, cleos = queued(postgres)
    stopped = {"holder": "stopped", "bell": "nobody", "pid": cleos["pid"]}
    postgres.query(
        "UPDATE holdfast_leases SET holder = 'stopped', offered = true,"
        " ends = clock_timestamp() + interval '1 s', queue = %s::jsonb || queue",
        (json.dumps([stopped]),),
    )
    leave = Statements("holdfast_leases").leave.sql
    with postgres.connection() as connection:
        psycopg.RawCursor(connection).execute(leave, ("holdfast:job", bens["holder"]))
    mine = waiting.result(20)
    assert mine.fence > lease.fence
    cleo(mine.release)


def test_who_leaves_while_it_is_offered_the_lock_gives_it_back(
    postgres: PostgresServer, invite: Invite
) -> None:
    """To leave is several statements, and the present holder's release may come in between."""
    ann = invite(postgres.url)
    lease = ann.takes(ttl=60)
    [(alive,)] = postgres.query(
        "SELECT pid FROM pg_stat_activity WHERE datname IS NOT NULL LIMIT 1"
    )
    leaving = {"holder": "leaving", "bell": "nobody", "pid": alive}
    postgres.query("UPDATE holdfast_leases SET queue = %s", (json.dumps([leaving]),))
    speech = Speech("node", Statements("holdfast_leases"), ServerClock(time.monotonic))
    script = speech.answer(Release("holdfast:job", "leaving"), math.inf)
    text, values = next(script)
    with postgres.connection() as connection, suppress(StopIteration):
        while True:
            rows = psycopg.RawCursor(connection).execute(text.sql, values).fetchall()
            if lease.held:
                ann(lease.release)
            text, values = script.send(rows)
    assert ann.tries(), "it is not offered to one who has gone"


def test_a_place_in_the_queue_names_its_listener(postgres: PostgresServer, invite: Invite) -> None:
    ann, ben = invite(postgres.url), invite(postgres.url)
    lease = ann.takes(ttl=60)
    [waiting] = queue_up(postgres, ben)
    [place] = queued(postgres)
    assert set(place) == {"holder", "bell", "pid"}, json.dumps(place)
    assert postgres.query("SELECT query FROM pg_stat_activity WHERE pid = %s", (place["pid"],)) == [
        (f'LISTEN "{place["bell"]}"',)
    ]
    ann(lease.release)
    ben(waiting.result(20).release)


def test_behind_a_pooler_waiters_ask_now_and_then(
    postgres: PostgresServer, pgbouncer: PgBouncer, invite: Invite
) -> None:
    ann, ben = invite(pgbouncer.url), invite(pgbouncer.url, retry=0.05)
    lease = ann.takes(ttl=60)
    waiting = ben.begin(ben.client.lock("job").acquire, timeout=30)
    assert ann(ann.client.inspect, "job").waiters is None
    assert queued(postgres) == []
    ann(lease.release)
    mine = waiting.result(20)
    assert mine.fence > lease.fence
    ben(mine.release)
    prepared = postgres.query("SELECT count(*) FROM pg_prepared_statements")
    assert prepared == [(0,)]


def test_behind_a_pooler_and_past_it_locks_are_the_same(
    postgres: PostgresServer, pgbouncer: PgBouncer, invite: Invite
) -> None:
    ann, ben, cleo = invite(pgbouncer.url), invite(postgres.url), invite(pgbouncer.url)
    lease = ann.takes(ttl=60)
    assert ben.tries() is None
    [waiting] = queue_up(postgres, ben)
    ann(lease.release)  # a pooled release hands on all the same
    mine = waiting.result(20)
    assert cleo.tries() is None
    ben(mine.release)
    assert cleo.takes().fence > mine.fence
