"""Nobody else wants the lock: what does an acquire and a release cost on etcd?"""

from collections.abc import Callable, Generator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import grpc.aio

import holdfast
from benchmarks import servers
from benchmarks.measure import Case, Effort, at_most, rows
from benchmarks.pairs import async_holdfast_pair, compare, compare_async, holdfast_pair
from benchmarks.peers import TTL, AsyncPair, Pair, find, not_slower
from holdfast.drivers.surroundings import new_holder
from holdfast.engines.etcd.books import new_lease
from holdfast.engines.etcd.keys import place_of, queue_of
from holdfast.engines.etcd.lines import HAS_LEADER, SETTINGS, Line
from holdfast.engines.etcd.phrases import Call, grant, part, revoke, take
from holdfast.lab.servers.etcd import EtcdServer
from holdfast.lab.servers.ports import HOST

OURS, FLOOR, LESS = "holdfast", "the raw calls", "two raw calls"
PEER, TIDY = "aetcd", "aetcd, lease revoked"
MOST_OVER_CALLS = 1.3
WITHIN = 5.0
KEY = "holdfast:floor"
LONG = 3600
"""Seconds: longer than anybody measures."""

Calls: TypeAlias = Generator[Call, Any, None]

WHAT = (
    f"*{FLOOR}* are LeaseGrant, Txn and LeaseRevoke through the same library, with the same "
    "messages for a new holder id each time. In a loop as quick as this, holdfast uses a lease "
    f"again, and makes two calls: *{LESS}* are these. The server does not wait for its disk."
)


def measure_threads(effort: Effort, folder: Path) -> Case:
    server = servers.etcd()
    with (
        grpc.insecure_channel(server.address, options=SETTINGS) as channel,
        holdfast.Client(server.url) as client,
    ):
        line, lease = Line("raw", channel), new_lease()
        _raw_pair(line, partial(_grant, lease))()
        pairs = {
            FLOOR: _raw_pair(line, _three_calls),
            LESS: _raw_pair(line, partial(_two_calls, lease)),
            OURS: holdfast_pair(client),
        }
        values = compare(pairs, effort.batch // 2, effort.rounds // 2)
    return Case(
        "etcd-sync",
        "Uncontended acquire and release, etcd",
        f"One pair, nobody else there, by a thread. {WHAT} There is no peer for threads.",
        FLOOR,
        rows(values, "µs", 1e6, FLOOR),
        (at_most(values, OURS, FLOOR, MOST_OVER_CALLS),),
    )


def measure_tasks(effort: Effort, folder: Path) -> Case:
    server = servers.etcd()

    async def open_pairs(stack: AsyncExitStack) -> dict[str, AsyncPair]:
        channel = await stack.enter_async_context(
            grpc.aio.insecure_channel(server.address, options=SETTINGS)
        )
        client = await stack.enter_async_context(holdfast.AsyncClient(server.url))
        line, lease = Line("raw", channel), new_lease()
        await _async_raw_pair(line, partial(_grant, lease))()
        return {
            FLOOR: _async_raw_pair(line, _three_calls),
            LESS: _async_raw_pair(line, partial(_two_calls, lease)),
            OURS: async_holdfast_pair(client),
            **await _aetcd(server, stack),
        }

    values = compare_async(open_pairs, effort.batch // 2, effort.rounds // 2)
    return Case(
        "etcd-async",
        "Uncontended acquire and release, etcd, asyncio",
        f"The same by a task. {WHAT} The lock of {PEER} deletes its key and leaves its lease "
        f"behind, which lives on until the ttl is over; *{TIDY}* leaves nothing behind, as "
        "holdfast does.",
        FLOOR,
        rows(values, "µs", 1e6, FLOOR),
        (
            at_most(values, OURS, FLOOR, MOST_OVER_CALLS),
            not_slower(values, PEER),
            not_slower(values, TIDY),
        ),
    )


def _grant(lease: int) -> Calls:
    yield grant(lease, LONG)


def _three_calls() -> Calls:
    lease = new_lease()
    yield grant(lease, TTL)
    yield take(queue_of(KEY), place_of(KEY, new_holder()), lease)
    yield revoke(lease)


def _two_calls(lease: int) -> Calls:
    place = place_of(KEY, new_holder())
    reply = yield take(queue_of(KEY), place, lease)
    yield part(place, reply.header.revision)


def _raw_pair(line: Line, begin: Callable[[], Calls]) -> Pair:
    def acquire_and_release() -> None:
        calls = begin()
        call: Call | None = next(calls)
        while call is not None:
            reply = line[call.method](call.request, timeout=WITHIN, metadata=(HAS_LEADER,))
            call = _next(calls, reply)

    return acquire_and_release


def _async_raw_pair(line: Line, begin: Callable[[], Calls]) -> AsyncPair:
    async def acquire_and_release() -> None:
        calls = begin()
        call: Call | None = next(calls)
        while call is not None:
            reply = await line[call.method](call.request, timeout=WITHIN, metadata=(HAS_LEADER,))
            call = _next(calls, reply)

    return acquire_and_release


def _next(calls: Calls, reply: Any) -> Call | None:
    try:
        return calls.send(reply)
    except StopIteration:
        return None


async def _aetcd(server: EtcdServer, stack: AsyncExitStack) -> dict[str, AsyncPair]:
    """As it is, and with what it forgets; nothing if it is not installed."""
    module = find("aetcd")
    if module is None:
        return {}
    client = await stack.enter_async_context(module.Client(HOST, server.port))
    lock = client.lock(b"bench", ttl=TTL)

    async def acquire_and_release() -> None:
        assert await lock.acquire()
        assert await lock.release()

    async def with_its_lease() -> None:
        await acquire_and_release()
        await lock.lease.revoke()

    return {PEER: acquire_and_release, TIDY: with_its_lease}
