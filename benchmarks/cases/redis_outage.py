"""One of five servers is stopped, or killed: what does that cost whoever takes locks?"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import holdfast
from benchmarks.cases.redis_pairs import UNGUARDED, holdfast_pair
from benchmarks.measure import Case, Effort, Row, Spread, Target, Values, ratio, rows
from benchmarks.peers import TTL
from benchmarks.redis import peers
from benchmarks.workers import Worker
from holdfast.engines.redis import quorum_patience
from holdfast.lab.servers.masters import RedisMasters
from holdfast.lab.servers.redis import RedisServer

MOST_TIMES_HEALTHY = 1.5
FIRST_EXTRA = 0.02
"""Seconds that the first pair may take beyond the patience with one node."""
ROUNDS = 5
HEALTHY = "holdfast, all well"
FAULTS: dict[str, Callable[[RedisServer], None]] = {
    "stopped": RedisServer.freeze,
    "killed": RedisServer.kill,
}


def measure(effort: Effort, folder: Path) -> Case:
    logging.disable(logging.WARNING)  # that a node is gone is what this is about
    try:
        return _measure(effort)
    finally:
        logging.disable(logging.NOTSET)


def _measure(effort: Effort) -> Case:
    rounds = min(ROUNDS, effort.rounds)
    after: Values = {label: [] for label in (HEALTHY, *map(_after, FAULTS))}
    first: Values = {_first(fault): [] for fault in FAULTS}
    with RedisMasters() as masters:
        with holdfast.Client(masters.url + UNGUARDED) as client:
            pair = holdfast_pair(client)
            pair()
            for _ in range(rounds):
                after[HEALTHY].append(median(_times(pair, effort.batch)))
                for fault, strike in FAULTS.items():
                    victim = masters.servers[0]
                    strike(victim)
                    first[_first(fault)] += _times(pair, 1)
                    after[_after(fault)].append(median(_times(pair, effort.batch)))
                    _heal(victim)
                    _wait_until_well(client, pair)
        stuck = _ask_peers(masters, effort)
    bearable = quorum_patience(TTL) + FIRST_EXTRA
    return Case(
        "redlock-outage",
        "One of five servers stopped, or killed",
        "The first pair after it happened, and the median of those after that. *stopped* is "
        "SIGSTOP: its connections stay, and it answers nothing. The peers have no limit of their "
        f"own for one server unless they are given one; none was waited for beyond {effort.cap:g} "
        f"s. {' '.join(stuck[1])}",
        HEALTHY,
        rows(after, "ms, median", 1e3, HEALTHY)
        + rows(first, "ms, the first", 1e3, "")
        + tuple(stuck[0]),
        tuple(_steady(after, fault) for fault in FAULTS)
        + tuple(_prompt(first, fault, bearable) for fault in FAULTS),
    )


def _after(fault: str) -> str:
    return f"holdfast, one {fault}"


def _first(fault: str) -> str:
    return f"holdfast, just {fault}"


def _steady(after: Values, fault: str) -> Target:
    times = ratio(after, _after(fault), HEALTHY)
    assert times
    return Target(
        f"one {fault}: at most {MOST_TIMES_HEALTHY:g} times as long as with all five",
        f"{times.median:.2f} times",
        times.median <= MOST_TIMES_HEALTHY,
    )


def _prompt(first: Values, fault: str, bearable: float) -> Target:
    longest = max(first[_first(fault)])
    return Target(
        f"just {fault}: the first within {bearable * 1000:g} ms",
        f"{longest * 1000:.1f} ms at the most",
        longest <= bearable,
    )


def _times(pair: Callable[[], object], count: int) -> list[float]:
    times = []
    for _ in range(count):
        began = time.perf_counter()
        pair()
        times.append(time.perf_counter() - began)
    return times


def _heal(server: RedisServer) -> None:
    if server.alive:
        server.thaw()
    else:
        server.start()


def _wait_until_well(client: holdfast.Client, pair: Callable[[], object]) -> None:
    """A node that was away is looked for again from time to time."""
    give_up_at = time.monotonic() + 5
    while time.monotonic() < give_up_at:
        pair()
        if not any(node.trouble for node in client._driver._store._fleet.nodes):  # type: ignore[attr-defined]
            break
        time.sleep(0.05)
    _times(pair, 20)


def _ask_peers(masters: RedisMasters, effort: Effort) -> tuple[list[Row], list[str]]:
    """How long each peer took for its first pair without one server, and what it said."""
    ports = [server.port for server in masters.servers]
    jobs = {"redlock-py": _redlock_py, "pottery": _pottery}
    if peers.find_aioredlock():
        jobs["aioredlock"] = _aioredlock
    found: list[Row] = []
    remarks: list[str] = []
    for fault, strike in FAULTS.items():
        with ExitStack() as stack:
            workers = {name: stack.enter_context(Worker(job, ports)) for name, job in jobs.items()}
            for worker in workers.values():
                worker.answer()
            strike(masters.servers[0])
            for name, worker in workers.items():
                worker.tell("pair")
                took, remark = effort.cap, "did not come back"
                if worker.pipe.poll(effort.cap):
                    took, remark = worker.answer()
                worker.kill()
                found.append(Row(f"{name}, just {fault}", "ms, the first", Spread.of([took * 1e3])))
                if remark:
                    remarks.append(f"{name}, with one {fault}, {remark}.")
        _heal(masters.servers[0])
        for server in masters.servers:
            server.command("FLUSHALL")  # what those who were ended have left behind
    if "aioredlock" not in jobs:
        remarks.append(peers.WITHOUT_AIOREDLOCK)
    return found, remarks


def _redlock_py(pipe: "Connection[Any, Any]", ports: Sequence[int]) -> None:
    _pair_and_tell(pipe, peers.redlock_py(ports))


def _pottery(pipe: "Connection[Any, Any]", ports: Sequence[int]) -> None:
    _pair_and_tell(pipe, peers.pottery_pair(ports))


def _aioredlock(pipe: "Connection[Any, Any]", ports: Sequence[int]) -> None:
    with asyncio.Runner() as runner:

        async def prepare() -> peers.Pairs:
            return peers.AioredlockTasks(peers.find_aioredlock(), ports).pairs(0)

        pairs = runner.run(prepare())

        async def one() -> None:
            await pairs(1)

        _pair_and_tell(pipe, lambda: runner.run(one()))


def _pair_and_tell(pipe: "Connection[Any, Any]", pair: Callable[[], object]) -> None:
    """One pair in health; then one more when told to, and how long it took."""
    logging.disable(logging.CRITICAL)
    pair()
    pipe.send("ready")
    pipe.recv()
    began = time.perf_counter()
    remark = ""
    try:
        pair()
    except Exception as error:
        remark = f"raised {type(error).__name__}"
    pipe.send((time.perf_counter() - began, remark))
