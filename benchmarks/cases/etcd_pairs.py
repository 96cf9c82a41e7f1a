"""Nobody else wants the lock: what does an acquire and a release cost on etcd?"""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

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
from holdfast.engines.etcd.phrases import Call, grant, revoke, take
from holdfast.lab.servers.etcd import EtcdServer
from holdfast.lab.servers.ports import HOST

OURS, FLOOR = "holdfast", "the raw calls"
PEER, TIDY = "aetcd", "aetcd, lease revoked"
MOST_OVER_CALLS = 1.3
WITHIN = 5.0

WHAT = (
    f"*{FLOOR}* are LeaseGrant, Txn and LeaseRevoke through the same library, with the same "
    "messages for a new holder id each time. The server does not wait for its disk."
)


def measure_threads(effort: Effort, folder: Path) -> Case:
    server = servers.etcd()
    with (
        grpc.insecure_channel(server.address, options=SETTINGS) as channel,
        holdfast.Client(server.url) as client,
    ):
        pairs = {FLOOR: _raw_pair(channel), OURS: holdfast_pair(client)}
        values = compare(pairs, effort.batch // 5 + 1, effort.rounds)
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
        return {
            FLOOR: _async_raw_pair(channel),
            OURS: async_holdfast_pair(client),
            **await _aetcd(server, stack),
        }

    values = compare_async(open_pairs, effort.batch // 5 + 1, effort.rounds)
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


def _calls() -> tuple[Call, Call, Call]:
    lease, key = new_lease(), "holdfast:floor"
    taking = take(queue_of(key), place_of(key, new_holder()), lease)
    return grant(lease, TTL), taking, revoke(lease)


def _raw_pair(channel: grpc.Channel) -> Pair:
    line = Line("raw", channel)

    def acquire_and_release() -> None:
        for call in _calls():
            line[call.method](call.request, timeout=WITHIN, metadata=(HAS_LEADER,))

    return acquire_and_release


def _async_raw_pair(channel: Any) -> AsyncPair:
    line = Line("raw", channel)

    async def acquire_and_release() -> None:
        for call in _calls():
            await line[call.method](call.request, timeout=WITHIN, metadata=(HAS_LEADER,))

    return acquire_and_release


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
