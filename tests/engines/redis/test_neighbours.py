"""Locks of other libraries on the same keys exclude ours, and are excluded by them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import pottery
import pytest
import redis
import redis_lock
import redlock

from holdfast import LockLost
from holdfast.lab.servers.redis import RedisServer
from tests.engines.redis.conftest import Invite
from tests.engines.redis.party import Party
from tests.equipment.servers.masters import RedisMasters
from tests.patience import wait_for

Clients = Sequence[redis.Redis]


class Redlocks:
    """redlock-py, with the methods of a lock."""

    def __init__(self, clients: Clients, name: str) -> None:
        self._locks = redlock.Redlock(list(clients), retry_count=1, retry_delay=0.01)
        self._name, self._lock = name, None

    def acquire(self, blocking: bool) -> bool:
        assert not blocking
        self._lock = self._locks.lock(self._name, 60_000)
        return bool(self._lock)

    def release(self) -> None:
        self._locks.unlock(self._lock)


class Library(NamedTuple):
    """Another library: the prefix with which it is met, and its lock of a name."""

    prefix: str
    lock: Callable[[Clients, str], Any]
    quorum: bool = False


LIBRARIES = {
    "redis-py": Library("", lambda clients, name: clients[0].lock(name, timeout=60)),
    "python-redis-lock": Library(
        "lock:", lambda clients, name: redis_lock.Lock(clients[0], name, expire=60)
    ),
    "redlock-py": Library("", Redlocks, quorum=True),
    "pottery": Library(
        "redlock:",
        lambda clients, name: pottery.Redlock(key=name, masters=set(clients), auto_release_time=60),
        quorum=True,
    ),
}


class Meeting(NamedTuple):
    """One of ours, and locks of another library on the same servers."""

    me: Party
    lock: Callable[[str], Any]
    clients: Clients


@pytest.fixture(params=LIBRARIES)
def meeting(request: pytest.FixtureRequest, invite: Invite) -> Iterator[Meeting]:
    library = LIBRARIES[request.param]
    masters: RedisMasters = request.getfixturevalue("three")
    servers = masters.servers if library.quorum else masters.servers[:1]
    url = f"{masters.url}?restart_guard=off" if library.quorum else servers[0].url
    me = invite(url, prefix=library.prefix, ttl=60, retry=0.05)
    with ExitStack() as stack:
        clients = [stack.enter_context(redis.Redis(port=server.port)) for server in servers]
        yield Meeting(me, lambda name: library.lock(clients, name), clients)


@pytest.mark.parametrize("name", ["job", "job{1}", "{job}:1", "100%", "a%7Bb"])
def test_they_exclude_us_and_we_exclude_them(meeting: Meeting, name: str) -> None:
    me, lock = meeting.me, meeting.lock(name)
    assert lock.acquire(blocking=False)
    assert me.tries(name) is None
    assert me(me.client.inspect, name).label is None
    waiting = me.begin(me.client.lock(name).acquire, timeout=20)
    lock.release()
    lease = waiting.result(20)
    assert lease
    assert not meeting.lock(name).acquire(blocking=False)
    me(lease.extend)  # what they gave back was not ours
    me(lease.release)
    again = meeting.lock(name)
    assert again.acquire(blocking=False)
    again.release()


def test_a_foreign_client_gets_the_lock_only_when_nobody_queues(meeting: Meeting) -> None:
    """On one server a release hands the lock to the next waiter, so the key is never free for those
    who poll. Over a quorum there is no queue."""
    me = meeting.me
    if len(meeting.clients) > 1:
        pytest.skip("no queue over a quorum")
    lease = me.takes()
    for _ in range(5):
        waiting = me.begin(me.client.lock("job").acquire, timeout=20)
        wait_for(lambda: (me(me.client.inspect, "job").waiters or 0) == 1)
        me(lease.release)
        assert not meeting.lock("job").acquire(blocking=False)
        lease = waiting.result(20)
    me(lease.release)
    assert meeting.lock("job").acquire(blocking=False)


class TestPlainKeys:
    @pytest.fixture
    def me(self, server: RedisServer, invite: Invite) -> Party:
        return invite(server.url, prefix="", ttl=5, retry=0.05)

    @pytest.fixture
    def theirs(self, server: RedisServer) -> Iterator[redis.Redis]:
        with redis.Redis(port=server.port) as client:
            yield client

    def test_a_key_excludes_us_until_it_expires(self, me: Party, theirs: redis.Redis) -> None:
        theirs.set("job", b"\xff\x00 not text", nx=True, px=300)
        assert me.tries() is None
        me(me.takes().release)

    def test_a_key_without_expiry_excludes_us_until_it_is_deleted(
        self, me: Party, theirs: redis.Redis
    ) -> None:
        theirs.set("job", "forever")
        assert me(me.client.lock("job").acquire, timeout=0.2) is None
        info = me(me.client.inspect, "job")
        assert (info.holder, info.remaining > 1e9) == ("forever", True)
        waiting = me.begin(me.client.lock("job").acquire, timeout=10)
        theirs.delete("job")
        me(waiting.result(10).release)

    @pytest.mark.parametrize("then", [None, "thief"])
    def test_a_deleted_or_replaced_key_is_a_lost_lock(
        self, me: Party, theirs: redis.Redis, then: str | None
    ) -> None:
        lease = me.takes(ttl=0.9)
        theirs.set("job", then, px=5000) if then else theirs.delete("job")
        wait_for(lambda: lease.lost)
        with pytest.raises(LockLost):
            me(lease.release)
        assert theirs.get("job") == (then.encode() if then else None)
