"""PostgreSQL and MariaDB at their worst moments: killed, stopped, or cut off."""

import os
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from holdfast import EngineUnavailable
from tests.engines.redis.party import Party
from tests.engines.sql.conftest import Invite
from tests.engines.sql.databases import Database
from tests.equipment.servers.proxy import Proxy
from tests.patience import wait_for

pytestmark = pytest.mark.parametrize("kind", ["postgres", "mariadb"])


@pytest.fixture
def proxy(database: Database) -> Iterator[Proxy]:
    with Proxy(database.server.port) as proxy:
        yield proxy


def got(party: Party, taking: "Future[Any]") -> Any:
    """The lease that somebody has got at last; they give it back."""
    lease = taking.result(20)
    assert lease
    party.insists(lease.release)
    return lease


def waits(party: Party) -> "Future[Any]":
    """Somebody has begun to wait for the lock."""
    waiting = party.begin(party.client.lock("job", ttl=60).acquire, timeout=20)
    wait_for(lambda: party.insists(party.client.inspect, "job").waiters == 1)
    return waiting


def test_a_lease_outlives_a_crash_of_the_server(database: Database, invite: Invite) -> None:
    ann, ben = invite(database.url), invite(database.url)
    lease = ann.takes(ttl=6)
    database.server.kill()
    database.server.start()
    ann.insists(lease.extend)
    assert lease.held
    assert ben.tries() is None
    ann.insists(lease.release)
    assert ben.takes().fence > lease.fence


def test_a_waiter_outlives_a_restart_of_the_server(database: Database, invite: Invite) -> None:
    ann, ben = invite(database.url), invite(database.url)
    lease = ann.takes(ttl=30)
    waiting = waits(ben)
    database.server.restart()
    wait_for(lambda: ann.insists(ann.client.inspect, "job").waiters == 1)  # it listens again
    ann.insists(lease.release)
    assert got(ben, waiting).fence > lease.fence


def test_connections_that_were_ended_are_nobodys_failure(
    database: Database, invite: Invite
) -> None:
    ann = invite(database.url)
    ann(ann.takes().release)
    for session in database.other_sessions():
        database.kill_session(session)
    wait_for(lambda: not database.other_sessions())
    assert ann.tries()


def test_a_grant_whose_reply_was_lost_is_found_again(
    database: Database, proxy: Proxy, invite: Invite
) -> None:
    address = database.server.address
    ann, ben = invite(database.url.replace(address, proxy.address)), invite(database.url)
    ann(ann.takes().release)
    proxy.hold("replies")
    taking = ann.begin(ann.client.lock("job", ttl=60).acquire, timeout=15)
    wait_for(lambda: ben(ben.client.inspect, "job") is not None)
    seen = ben(ben.client.inspect, "job")
    proxy.reset()
    proxy.heal()
    lease = got(ann, taking)
    assert (lease.holder, lease.fence) == (seen.holder, seen.fence)


def test_a_stopped_server_is_given_up_in_time(database: Database, invite: Invite) -> None:
    ann, ben = invite(database.url), invite(database.url)
    lease = ann.takes(ttl=9)
    waiting = waits(ben)
    with database.silence(), pytest.raises(EngineUnavailable):
        ann(lease.extend)
    ann.insists(lease.release)
    assert got(ben, waiting)


def test_a_stopped_server_is_not_waited_for_by_those_who_connect(
    database: Database, invite: Invite
) -> None:
    with database.silence():
        [why] = invite(database.url).refused(ttl=1).values()
    assert "did not answer in time" in why or "is pending" in why


def test_more_threads_and_tasks_than_connections(database: Database, invite: Invite) -> None:
    ann = invite(database.url, connections=2)
    ann(ann.takes().release)
    taking = [
        ann.begin(ann.client.lock(f"job {number}").acquire, timeout=15) for number in range(40)
    ]
    assert len({got(ann, each).name for each in taking}) == 40
    assert len(database.other_sessions()) <= 2


def test_a_forked_child_leaves_its_parents_connections_alone(database: Database) -> None:
    ann, ben = Party("sync", database.url), Party("sync", database.url)
    lease = ann.takes(ttl=30)
    assert ben(ben.client.lock("job").acquire, timeout=0.2) is None  # it has listened, and is gone
    ben.close()
    wait_for(lambda: len(database.other_sessions()) == 1)
    parents = database.other_sessions()
    child = os.fork()
    if child == 0:
        # No way back into the tests from here, whatever happens.
        try:
            taken = ann.client.lock("job").acquire(blocking=False)
            mine = ann.client.lock("child's").acquire(blocking=False)
            os._exit(0 if taken is None and mine else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    wait_for(lambda: len(database.other_sessions()) == 1)
    ann(lease.extend)
    assert database.other_sessions() == parents, "it goes on with the same connection"
    ann(lease.release)
    ann.close()
