"""Nobody else wants the lock: what does an acquire and a release cost on etcd?"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import grpc
import grpc.aio

import holdfast
from benchmarks.cases.redis_pairs import holdfast_pair
from benchmarks.measure import Case, Effort, Values, at_most, interleave, rows, seconds_each
from benchmarks.peers import TTL, Pair
from holdfast.drivers.surroundings import new_holder
from holdfast.engines.etcd.books import new_lease
from holdfast.engines.etcd.keys import place_of, queue_of
from holdfast.engines.etcd.lines import HAS_LEADER, SETTINGS, Line
from holdfast.engines.etcd.phrases import Call, grant, revoke, take
from holdfast.lab.servers.etcd import EtcdServer
from holdfast.lab.servers.programs import find_etcd_wheel

FLOOR = "the raw calls"
MOST_OVER_CALLS = 1.3
WITHIN = 5.0
WITHOUT_DISK = ("--unsafe-no-fsync",)
"""The disk takes longer than all the rest, and would hide it."""

WHAT = (
    "*the raw calls* are LeaseGrant, Txn and LeaseRevoke through the same library, with the same "
    "messages for a new holder id each time. The server does not wait for its disk."
)


def measure_threads(effort: Effort, folder: Path) -> Case:
    with (
        EtcdServer(folder / "etcd", program=find_etcd_wheel(), options=WITHOUT_DISK) as server,
        grpc.insecure_channel(server.address, options=SETTINGS) as channel,
        holdfast.Client(server.url) as client,
    ):
        pairs = {FLOOR: _raw_pair(channel), "holdfast": holdfast_pair(client)}
        values = interleave(
            {
                label: lambda pair=pair: seconds_each(pair, effort.batch // 5 + 1)  # type: ignore[misc]
                for label, pair in pairs.items()
            },
            effort.rounds,
        )
    return _case("etcd-sync", "Uncontended acquire and release, etcd", WHAT, values)


def measure_tasks(effort: Effort, folder: Path) -> Case:
    with (
        EtcdServer(folder / "etcd", program=find_etcd_wheel(), options=WITHOUT_DISK) as server,
        asyncio.Runner() as runner,
    ):
        values = _interleave_tasks(runner, server, effort)
    what = f"The same by a task. {WHAT}"
    return _case("etcd-async", "Uncontended acquire and release, etcd, asyncio", what, values)


def _interleave_tasks(runner: asyncio.Runner, server: EtcdServer, effort: Effort) -> Values:
    async def open_both() -> tuple[Any, holdfast.AsyncClient]:
        channel = grpc.aio.insecure_channel(server.address, options=SETTINGS)
        return channel, holdfast.AsyncClient(server.url)

    async def close_both() -> None:
        await client.aclose()
        await channel.close()

    channel, client = runner.run(open_both())
    lock = client.lock("bench", ttl=TTL)

    async def ours() -> None:
        lease = await lock.acquire()
        assert lease
        await lease.release()

    def timed(pair: Callable[[], Awaitable[None]]) -> Callable[[], float]:
        return lambda: runner.run(_seconds_each(pair, effort.batch // 5 + 1))

    pairs = {FLOOR: _raw_pair_of_tasks(channel), "holdfast": ours}
    values = interleave({label: timed(pair) for label, pair in pairs.items()}, effort.rounds)
    runner.run(close_both())
    return values


async def _seconds_each(pair: Callable[[], Awaitable[None]], times: int) -> float:
    began = perf_counter()
    for _ in range(times):
        await pair()
    return (perf_counter() - began) / times


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


def _raw_pair_of_tasks(channel: Any) -> Callable[[], Awaitable[None]]:
    line = Line("raw", channel)

    async def acquire_and_release() -> None:
        for call in _calls():
            await line[call.method](call.request, timeout=WITHIN, metadata=(HAS_LEADER,))

    return acquire_and_release


def _case(name: str, title: str, what: str, values: Values) -> Case:
    return Case(
        name,
        title,
        what,
        FLOOR,
        rows(values, "µs", 1e6, FLOOR),
        (at_most(values, "holdfast", FLOOR, MOST_OVER_CALLS),),
    )
