"""`protocol=getset`: with and against a client of the recipe as the literature has it; what is kept
on the server, and what is refused."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis

import holdfast
from holdfast import LockLost
from holdfast.core.messages import Acquire, Held, Inspect, List, Listing
from holdfast.core.ports import StoreHost
from holdfast.engines import open_engine
from holdfast.engines.redis.getset import Getset, mark
from holdfast.lab.servers.redis import RedisServer
from tests.patience import wait_for

KEY = "holdfast:door"


class Classic:
    """The recipe."""

    def __init__(self, plain: redis.Redis, ttl: float = 30.0) -> None:
        self.plain, self.ttl = plain, ttl
        self.expires = 0.0

    def acquire(self) -> bool:
        expires = time.time() + self.ttl + 1
        taken = bool(self.plain.setnx(KEY, expires))
        if not taken:
            current: Any = self.plain.get(KEY)
            expired = current is not None and float(current) < time.time()
            taken = expired and self.plain.getset(KEY, expires) == current
        self.expires = expires if taken else 0.0
        return taken

    def release(self) -> None:
        if time.time() < self.expires:
            self.plain.delete(KEY)


@pytest.fixture
def url(server: RedisServer) -> str:
    return f"{server.url}?protocol=getset&retry=0.02"


@pytest.fixture
def plain(server: RedisServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url) as plain:
        yield plain


@pytest.fixture
def client(url: str) -> Iterator[holdfast.Client]:
    with holdfast.Client(url) as client:
        yield client


def test_ours_keeps_a_classic_client_out(client: holdfast.Client, plain: redis.Redis) -> None:
    classic = Classic(plain)
    with client.lock("door"):
        assert not classic.acquire()
    assert classic.acquire()


def test_a_classic_client_keeps_ours_out(client: holdfast.Client, plain: redis.Redis) -> None:
    classic = Classic(plain)
    assert classic.acquire()
    assert client.lock("door").acquire(blocking=False) is None
    threading.Timer(0.1, classic.release).start()
    lease = client.lock("door").acquire(timeout=10)
    assert lease
    lease.release()
    assert plain.get(KEY) is None


def test_the_value_is_a_timestamp_a_second_beyond_the_ttl(
    client: holdfast.Client, plain: redis.Redis
) -> None:
    before = time.time()
    with client.lock("door", ttl=20) as lease:
        value: Any = plain.get(KEY)
        assert before + 21 <= float(value) <= time.time() + 21
        assert value.endswith(mark(lease.holder))
        seen = client.inspect("door")
        assert seen is not None
        assert (seen.holder, seen.fence) == (lease.holder, lease.fence)


def test_a_renewed_lease_outlasts_classic_clients(
    client: holdfast.Client, plain: redis.Redis
) -> None:
    classic = Classic(plain)
    with client.lock("door", ttl=0.3) as lease:
        first: Any = plain.get(KEY)
        wait_for(lambda: time.time() > float(first) or classic.acquire())
        assert not classic.acquire()
        lease.ensure_held()


def test_ours_takes_over_from_a_classic_client_that_died(
    client: holdfast.Client, plain: redis.Redis
) -> None:
    with client.lock("door") as lease:
        earlier = lease.fence
    assert Classic(plain, ttl=-0.8).acquire()
    assert client.lock("door").acquire(blocking=False) is None
    late = client.lock("door").acquire(timeout=10)
    assert late
    assert late.fence > earlier
    late.release()


def test_a_classic_client_takes_over_from_one_of_ours_that_died(
    client: holdfast.Client, plain: redis.Redis
) -> None:
    classic = Classic(plain)
    lease = client.lock("door", ttl=0.1, renew=False).acquire()
    assert lease
    assert not classic.acquire()
    wait_for(lambda: lease.lost)
    wait_for(classic.acquire)
    assert float(plain.get(KEY) or 0) == classic.expires

    with pytest.raises(LockLost):
        lease.release()
    assert float(plain.get(KEY) or 0) == classic.expires, "only mine"


def test_a_timestamp_that_a_loser_has_moved_ends_the_lease(
    client: holdfast.Client, plain: redis.Redis
) -> None:
    """The flaw of the recipe: who is second to GETSET overwrites the first."""
    lease = client.lock("door", ttl=30).acquire()
    assert lease
    moved = str(time.time() + 31)
    plain.set(KEY, moved)
    with pytest.raises(LockLost):
        lease.extend()
    assert plain.get(KEY) == moved.encode(), "it may be somebody's"
    assert client.lock("door").acquire(blocking=False) is None


def test_a_value_that_is_no_timestamp_is_never_taken(
    client: holdfast.Client, plain: redis.Redis
) -> None:
    for value in ("soon", "", "nan"):
        plain.set(KEY, value)
        assert client.lock("door").acquire(blocking=False) is None
        assert plain.get(KEY) == value.encode()


def test_a_classic_lock_from_outside(client: holdfast.Client, plain: redis.Redis) -> None:
    classic = Classic(plain, ttl=30)
    classic.acquire()
    seen = client.inspect("door")
    assert seen is not None
    assert float(seen.holder) == classic.expires
    assert (seen.fence, seen.label, seen.waiters) == (0, None, None)
    assert 30 < seen.remaining <= 31
    assert list(client.leases()) == [], "a name that holdfast never held is not found"
    assert client.break_lock("door")
    assert classic.acquire()


def test_a_counter_that_is_none(client: holdfast.Client, plain: redis.Redis) -> None:
    with client.lock("door") as lease:
        for value in ("seven", "9" * 5000):
            plain.set(f"{{{KEY}}}:fence", value)
            [seen] = client.leases()
            assert (seen.holder, seen.fence) == (lease.holder, 0)


def test_breaking_by_holder(client: holdfast.Client, plain: redis.Redis) -> None:
    """A client of the recipe is known by its value, one of holdfast by its mark."""
    classic, lease = Classic(plain, ttl=30), client.lock("door").acquire()
    assert lease
    assert not client.break_lock("door", "another")
    lease.extend()
    assert client.break_lock("door", lease.holder)
    assert classic.acquire()
    assert not client.break_lock("door", lease.holder)
    seen = client.inspect("door")
    assert seen is not None
    assert client.break_lock("door", seen.holder)
    assert plain.get(KEY) is None
    plain.set(KEY, b"no text: \xff\0")
    seen = client.inspect("door")
    assert seen is not None
    assert client.break_lock("door", seen.holder)
    assert plain.get(KEY) is None
    expired = str(time.time() - 1)
    plain.set(KEY, expired)
    assert not client.break_lock("door", expired)
    assert plain.get(KEY) == expired.encode(), "another client may be about to take it"
    with pytest.raises(LockLost):
        lease.release()


def test_of_those_who_race_for_a_dead_lock_one_wins_undisturbed(
    url: str, plain: redis.Redis
) -> None:
    for _ in range(20):
        plain.set(KEY, time.time() - 1)
        clients = [holdfast.Client(url) for _ in range(6)]
        barrier = threading.Barrier(len(clients))

        def race(client: holdfast.Client, barrier: threading.Barrier) -> holdfast.Lease | None:
            barrier.wait()
            return client.lock("door").acquire(blocking=False)

        with ThreadPoolExecutor(len(clients)) as pool:
            outcomes = list(pool.map(race, clients, [barrier] * len(clients)))
        (winner,) = filter(None, outcomes)
        winner.extend()
        winner.release()
        for each in clients:
            each.close()


@pytest.mark.slow
def test_old_and_new_clients_exclude_each_other(url: str, server: RedisServer) -> None:
    """Threads and tasks of ours, and classic clients, count in turns, each looking whether it is
    alone."""
    inside: list[str] = []
    count = 0

    def work(who: str) -> None:
        nonlocal count
        inside.append(who)
        seen = count
        time.sleep(0.0005)
        count = seen + 1
        assert inside == [who]
        inside.pop()

    def classic() -> None:
        with redis.Redis.from_url(server.url) as plain:
            lock = Classic(plain)
            for _ in range(30):
                wait_for(lock.acquire)
                work("classic")
                lock.release()

    def ours() -> None:
        with holdfast.Client(url, retry=0.002) as client:
            for _ in range(30):
                with client.lock("door"):
                    work("ours")

    async def tasks() -> None:
        async with holdfast.AsyncClient(url, retry=0.002) as client:

            async def task() -> None:
                for _ in range(15):
                    async with client.lock("door"):
                        work("task")

            await asyncio.gather(task(), task())

    with ThreadPoolExecutor() as pool:
        jobs = (classic, classic, ours, ours, lambda: asyncio.run(tasks()))
        for job in [pool.submit(job) for job in jobs]:
            job.result()
    assert count == 150


def test_a_client_whose_clock_is_ahead_breaks_in(
    client: holdfast.Client, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the guarantees say."""
    lease = client.lock("door", ttl=30, renew=False).acquire()
    assert lease
    ahead = SimpleNamespace(time=lambda: time.time() + 32)
    monkeypatch.setattr("holdfast.engines.redis.time", ahead)
    with holdfast.Client(url) as other:
        broken_in = other.lock("door").acquire(blocking=False)
        assert broken_in
        assert broken_in.fence > lease.fence, "the fence still tells who came later"
    with pytest.raises(LockLost):
        lease.extend()
    promises = client.guarantees
    assert any("wall clocks" in each for each in promises.broken_by)
    assert promises.suits == "efficiency"


def test_clients_can_change_the_protocol_one_by_one(
    client: holdfast.Client, server: RedisServer
) -> None:
    with holdfast.Client(server.url) as changed:
        with client.lock("door") as first:
            assert changed.lock("door").acquire(blocking=False) is None
        with changed.lock("door") as second:
            assert client.lock("door").acquire(blocking=False) is None
        with client.lock("door") as third:
            assert first.fence < second.fence < third.fence


def test_whoever_asks_just_before_its_time_is_over_hears_the_answer(
    server: RedisServer, client: holdfast.Client
) -> None:
    engine = open_engine(urlsplit(server.url), {"protocol": "getset"})
    host = StoreHost(time.monotonic, lambda waiter_id: None, lambda event: None)
    late = (Acquire(KEY, "you", 5, queue=True),)
    with client.lock("door"), closing(engine.connect(host)) as blocking:
        blocking.ask((Inspect(KEY),), time.monotonic() + 5)
        assert isinstance(blocking.ask(late, time.monotonic())[0], Held)

    async def main() -> None:
        store = engine.connect_async(host)
        await store.ask((Inspect(KEY),), time.monotonic() + 5)
        assert isinstance((await store.ask(late, time.monotonic()))[0], Held)
        await store.close()

    with client.lock("door"):
        asyncio.run(main())


def test_nothing_stays_for_ever(client: holdfast.Client, plain: redis.Redis) -> None:
    with client.lock("door"):
        keys: Any = plain.keys()
        kept = {key: plain.ttl(key) for key in keys}
    assert set(kept) == {KEY.encode(), b"{%b}:fence" % KEY.encode(), b"{%b}:holder" % KEY.encode()}
    assert all(30 < ttl <= 3700 for ttl in kept.values())
    assert plain.keys() == [b"{%b}:fence" % KEY.encode()]


def test_what_makes_no_sense_is_refused() -> None:
    for url in (
        "redlock://h1,h2,h3?protocol=getset",
        "redis://h?protocol=3",
        "redis://h?protocol=",
    ):
        with pytest.raises(ValueError, match="protocol"):
            holdfast.Client(url)
    with pytest.raises(ValueError, match="replicas"):
        holdfast.Client("redis://h?protocol=getset&replicas=1")


def test_marks_differ_and_have_one_length() -> None:
    marks = {mark(f"holder {number}") for number in range(1000)}
    assert len(marks) == 1000
    assert {len(each) for each in marks} == {12}


def test_an_empty_list_needs_no_second_question() -> None:
    phrase = Getset(keep=1, wall_clock=time.time).exchange([List("p", "", 10)])
    assert phrase.read([[b"0", []]]) == [Listing(())]
