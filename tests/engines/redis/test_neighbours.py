"""Other people's locks on the same keys: with `prefix=""` they keep us out, and we them."""

from collections.abc import Iterator
from contextlib import closing

import pytest
import redis
import redlock
from redis.lock import Lock as TheirLock

from holdfast import LockLost
from holdfast.lab.servers.redis import RedisServer
from tests.engines.redis.conftest import Invite
from tests.engines.redis.party import Party
from tests.equipment.servers.masters import RedisMasters
from tests.patience import wait_for


@pytest.fixture
def theirs(server: RedisServer) -> Iterator[redis.Redis]:
    with closing(redis.Redis(port=server.port)) as client:
        yield client


@pytest.fixture
def me(server: RedisServer, invite: Invite) -> Party:
    return invite(server.url, prefix="", ttl=5, retry=0.05)


@pytest.fixture
def we(three: RedisMasters, invite: Invite) -> Party:
    return invite(f"{three.url}?restart_guard=off", prefix="", ttl=5, retry=0.05)


@pytest.fixture
def redlocks(three: RedisMasters) -> Iterator[redlock.Redlock]:
    clients = [redis.Redis(port=server.port) for server in three.servers]
    yield redlock.Redlock(clients, retry_count=1, retry_delay=0.01)
    for client in clients:
        client.close()


class TestRedlockPy:
    def test_they_keep_us_out(self, we: Party, redlocks: redlock.Redlock) -> None:
        lock = redlocks.lock("job", 5000)
        assert lock
        assert we.tries() is None
        waiting = we.begin(we.client.lock("job").acquire, timeout=10)
        redlocks.unlock(lock)
        lease = waiting.result(10)
        assert lease
        we(lease.release)

    def test_we_keep_them_out(self, we: Party, redlocks: redlock.Redlock) -> None:
        lease = we.takes()
        assert not redlocks.lock("job", 5000)
        assert lease.held  # what they gave back was not ours
        we(lease.extend)
        we(lease.release)
        lock = redlocks.lock("job", 5000)
        assert lock
        redlocks.unlock(lock)

    def test_their_minority_does_not_keep_us_out(
        self, we: Party, three: RedisMasters, redlocks: redlock.Redlock
    ) -> None:
        three.servers[0].command("SET", "job", "somebody", "NX", "PX", 60_000)
        lease = we.takes()
        assert not redlocks.lock("job", 5000)
        we(lease.release)
        assert three.servers[0].command("GET", "job") == "somebody"

    def test_their_locks_can_be_seen(self, we: Party, redlocks: redlock.Redlock) -> None:
        lock = redlocks.lock("job", 5000)
        info = we(we.client.inspect, "job")
        assert info.holder == lock.key.decode()
        assert 0 < info.remaining <= 5
        assert info.label is None
        redlocks.unlock(lock)


class TestRedisPy:
    def test_they_keep_us_out(self, me: Party, theirs: redis.Redis) -> None:
        lock = TheirLock(theirs, "job", timeout=5)
        assert lock.acquire(blocking=False)
        assert me.tries() is None
        waiting = me.begin(me.client.lock("job").acquire, timeout=10)
        lock.release()
        lease = waiting.result(10)
        assert lease
        me(lease.release)

    def test_we_keep_them_out(self, me: Party, theirs: redis.Redis) -> None:
        lease = me.takes()
        lock = TheirLock(theirs, "job", timeout=5)
        assert not lock.acquire(blocking=False)
        me(lease.release)
        assert lock.acquire(blocking=False)
        lock.release()


class TestPlainSet:
    def test_a_key_keeps_us_out_until_it_expires(self, me: Party, theirs: redis.Redis) -> None:
        theirs.set("job", b"\xff\x00 not text", nx=True, px=300)
        assert me.tries() is None
        lease = me.takes()
        assert not theirs.set("job", "x", nx=True, px=300)
        me(lease.release)

    def test_a_key_without_an_end_keeps_us_out_until_it_is_deleted(
        self, me: Party, theirs: redis.Redis
    ) -> None:
        theirs.set("job", "for ever")
        assert me.tries() is None
        assert me(me.client.lock("job").acquire, timeout=0.2) is None
        waiting = me.begin(me.client.lock("job").acquire, timeout=10)
        theirs.delete("job")
        lease = waiting.result(10)
        assert lease
        me(lease.release)
        assert theirs.set("job", "x", nx=True, px=300)

    def test_a_key_without_an_end_is_seen_as_such(self, me: Party, theirs: redis.Redis) -> None:
        theirs.set("job", "for ever")
        info = me(me.client.inspect, "job")
        assert info.holder == "for ever"
        assert info.remaining > 1e9

    def test_whoever_deletes_our_key_takes_our_lock(self, me: Party, theirs: redis.Redis) -> None:
        lease = me.takes(ttl=0.9)
        theirs.delete("job")
        wait_for(lambda: lease.lost)
        with pytest.raises(LockLost):
            me(lease.release)

    def test_whoever_puts_another_in_its_place_keeps_it(
        self, me: Party, theirs: redis.Redis
    ) -> None:
        lease = me.takes(ttl=0.9)
        theirs.set("job", "thief", px=5000)
        wait_for(lambda: lease.lost)
        with pytest.raises(LockLost):
            me(lease.release)
        assert theirs.get("job") == b"thief"

    def test_a_key_of_another_kind_is_said_to_be_one(self, me: Party, theirs: redis.Redis) -> None:
        theirs.hset("job", "field", "value")
        assert "WRONGTYPE" in str(me.refused())
        assert theirs.hget("job", "field") == b"value"
