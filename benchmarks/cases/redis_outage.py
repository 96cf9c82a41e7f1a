"""One of five servers is stopped, or killed: what does the next pair cost, and those after it?"""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

import holdfast
from benchmarks.cases.redis_contention import calls
from benchmarks.cases.redis_pairs import GUARD_IS_OFF, UNGUARDED
from benchmarks.contenders import TTL, Openings, start
from benchmarks.measure import (
    Case,
    Effort,
    Row,
    Spread,
    Target,
    Values,
    figure_at_most,
    ratio,
    rows,
)
from benchmarks.pairs import pair_of
from benchmarks.redis import peers
from benchmarks.workers import Worker
from holdfast.engines.redis import quorum_node_timeout
from holdfast.lab.servers.redis import RedisServer
from tests.equipment.servers.masters import RedisMasters

MOST_TIMES_HEALTHY = 1.5
FIRST_EXTRA = 0.02
"""Seconds that the first pair may take beyond the timeout of one node."""
ROUNDS = 5
LATER = 5
"""Pairs of a peer after its first one."""
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
    node_timeout = quorum_node_timeout(TTL)
    with RedisMasters() as masters:
        with holdfast.Client(masters.url + UNGUARDED) as client:
            pair = pair_of(client)
            pair()
            for _ in range(rounds):
                after[HEALTHY].append(median(_times(pair, effort.batch)))
                for fault, strike in FAULTS.items():
                    victim = masters.servers[0]
                    strike(victim)
                    first[_first(fault)] += _times(pair, 1)
                    after[_after(fault)].append(median(_times(pair, effort.batch)))
                    _heal(victim)
                    _wait_until_well(victim, pair)
        peer_rows, remarks = _ask_peers(masters, node_timeout, effort)
    return Case(
        "redlock-outage",
        "One of five servers stopped, or killed",
        "The first pair after it happened, and the median of those after that. *stopped* is "
        "SIGSTOP: its connections stay, and it answers nothing. redlock-py and pottery have the "
        f"timeout that holdfast has for one server, {node_timeout * 1000:g} ms, and do not try it "
        "again. aioredlock has a timeout for connecting and none for commands; it was waited for "
        f"{effort.cap:g} s. {GUARD_IS_OFF} {' '.join(remarks)}",
        HEALTHY,
        rows(after, "ms, median", 1e3, HEALTHY)
        + rows(first, "ms, the first", 1e3, "")
        + tuple(peer_rows),
        tuple(_steady(after, fault) for fault in FAULTS)
        + tuple(_prompt(first, fault, node_timeout + FIRST_EXTRA) for fault in FAULTS),
    )


def _after(fault: str) -> str:
    return f"holdfast, one {fault}"


def _first(fault: str) -> str:
    return f"holdfast, just {fault}"


def _steady(after: Values, fault: str) -> Target:
    text = f"one {fault}: at most {MOST_TIMES_HEALTHY:g} times as long as with all five"
    return Target(text, ratio(after, _after(fault), HEALTHY), MOST_TIMES_HEALTHY)


def _prompt(first: Values, fault: str, bearable: float) -> Target:
    most = bearable * 1000
    text = f"just {fault}: the longest first pair at most {most:g} ms"
    return figure_at_most(text, [max(first[_first(fault)]) * 1000], most, "ms")


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


def _wait_until_well(server: RedisServer, pair: Callable[[], object]) -> None:
    """The client tries a node that was away again from time to time: wait until it votes."""
    give_up_at = time.monotonic() + 5
    while time.monotonic() < give_up_at:
        before = _votes(server)
        pair()
        if _votes(server) > before:
            break
        time.sleep(0.05)
    _times(pair, 20)


def _votes(server: RedisServer) -> int:
    """How many scripts the server has run."""
    return calls(server.info("commandstats"), "evalsha")


def _ask_peers(
    masters: RedisMasters, node_timeout: float, effort: Effort
) -> tuple[list[Row], list[str]]:
    """How long each peer took for its first pair without one server, and for later ones; and what
    went wrong."""
    ports = [server.port for server in masters.servers]
    openings: Openings = {
        "redlock-py": partial(peers.redlock_py, ports, within=node_timeout),
        "pottery": partial(peers.pottery, ports, within=node_timeout),
        "aioredlock": partial(peers.aioredlock_tasks, ports, 1, within=node_timeout),
    }
    first: list[Row] = []
    later: list[Row] = []
    remarks: list[str] = []
    workers: dict[str, Worker] = {}
    for fault, strike in FAULTS.items():
        with ExitStack() as stack:
            workers = start(openings, 1, stack)
            for worker in workers.values():
                _one_pair(worker, effort.cap)  # in health
            strike(masters.servers[0])
            for name, worker in workers.items():
                took, remark = _one_pair(worker, effort.cap)
                first.append(_row(f"{name}, just {fault}", "ms, the first", [took]))
                if remark:
                    remarks.append(f"{name}, with one {fault}, {remark}.")
                else:
                    times = [_one_pair(worker, effort.cap)[0] for _ in range(LATER)]
                    later.append(_row(f"{name}, one {fault}", "ms, median", times))
                worker.kill()
        _heal(masters.servers[0])
        for server in masters.servers:
            server.command("FLUSHALL")  # what the workers that were killed have left behind
    remarks += [f"{name} is not installed here." for name in openings if name not in workers]
    return later + first, remarks


def _row(label: str, unit: str, seconds: Sequence[float]) -> Row:
    return Row(label, unit, Spread.of([each * 1e3 for each in seconds]))


def _one_pair(worker: Worker, cap: float) -> tuple[float, str]:
    """How many seconds it took, and what went wrong, if anything."""
    began = time.perf_counter()
    worker.tell("once more")
    if not worker.pipe.poll(cap):
        return cap, "did not come back"
    answer = worker.answer()
    if isinstance(answer, str):
        return time.perf_counter() - began, answer
    return answer, ""
