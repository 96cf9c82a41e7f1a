"""Waiting for a lock in MariaDB, which wakes nobody: those who wait ask, but not too often."""

import time
from collections.abc import Iterator
from functools import partial

import pytest

from tests.engines.redis.party import Colour, Party
from tests.engines.sql.conftest import Invite
from tests.equipment.servers.mariadb import USER, MariaDbServer
from tests.patience import wait_for

CROWD = 100

SETTLING = 4.0
"""After so many seconds of waiting, a waiter asks as seldom as it ever will."""

COUNTED = 3.0


@pytest.fixture
def crowded(mariadb: MariaDbServer) -> Iterator[MariaDbServer]:
    mariadb.query("SET GLOBAL max_connections = 300")
    yield mariadb
    mariadb.query("SET GLOBAL max_connections = DEFAULT")


def statements(server: MariaDbServer) -> int:
    """How many statements it has carried out for others than us since it was started."""
    [(_, count)] = server.query("SHOW GLOBAL STATUS LIKE 'Com_stmt_execute'")
    return int(count)


def has_waiters(party: Party, how_many: int) -> bool:
    lines = party.client._driver._store._home.waiting._lines
    return len(lines.get("holdfast:job", ())) == how_many


def statements_a_second(server: MariaDbServer) -> float:
    """Counted over some seconds, which is no synchronisation: it is what is measured."""
    time.sleep(SETTLING)
    before, began = statements(server), time.monotonic()
    time.sleep(COUNTED)
    return (statements(server) - before) / (time.monotonic() - began)


@pytest.mark.parametrize("scheme", ["mariadb", "mysql"])
def test_a_hundred_who_wait_in_one_client(
    crowded: MariaDbServer, invite: Invite, scheme: str
) -> None:
    url = crowded.url_for(USER, scheme)
    ann, crowd = invite(url), invite(url)
    lease = ann.takes(ttl=30)
    lock = crowd.client.lock("job", ttl=30)
    waiting = [crowd.begin(lock.acquire, timeout=30) for _ in range(CROWD)]
    rate = statements_a_second(crowded)
    assert 0 < rate < 30, "hardly more than one of them asks"
    ann(lease.release)
    for _ in range(CROWD):
        wait_for(lambda: any(each.done() for each in waiting))
        first = next(each for each in waiting if each.done())
        waiting.remove(first)
        crowd(first.result().release)


@pytest.mark.parametrize("scheme", ["mariadb", "mysql"])
def test_a_hundred_who_wait_in_clients_of_their_own(crowded: MariaDbServer, scheme: str) -> None:
    colours: list[Colour] = ["sync", "async"]
    url = crowded.url_for(USER, scheme)
    ann = Party("sync", url)
    crowd = [Party(colours[number % 2], url) for number in range(CROWD)]
    lease = ann.takes(ttl=30)
    waiting = [each.begin(each.client.lock("job", ttl=30).acquire, timeout=15) for each in crowd]
    assert 0 < statements_a_second(crowded) < 100
    ann(lease.release)
    wait_for(lambda: any(each.done() for each in waiting))
    for party in crowd:
        party.close()
    ann.close()


def test_those_of_one_client_are_served_in_the_order_of_their_arrival(
    mariadb: MariaDbServer, invite: Invite
) -> None:
    ann, ben = invite(mariadb.url), invite(mariadb.url)
    lease = ann.takes(ttl=60)
    waiting = []
    for number in range(5):
        waiting.append(ben.begin(ben.client.lock("job", ttl=60).acquire, timeout=30))
        wait_for(partial(has_waiters, ben, number + 1))
    ann(lease.release)
    for turn in waiting:
        mine = turn.result(20)
        assert not any(later.done() for later in waiting[waiting.index(turn) + 1 :])
        ben(mine.release)


def test_a_waiter_takes_over_when_the_holders_time_is_over(
    mariadb: MariaDbServer, invite: Invite
) -> None:
    ann, ben = invite(mariadb.url), invite(mariadb.url)
    lease = ann.takes(ttl=1, renew=False)
    assert ben.takes(timeout=10).fence > lease.fence
