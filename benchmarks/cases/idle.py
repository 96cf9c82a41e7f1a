"""A hundred waiters and nothing happens: what does their waiting cost?"""

import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks.measure import Case, Effort, Row, Spread, figure_at_most
from benchmarks.peers import sqlite_url
from benchmarks.workers import Kind, Worker, wait_in_threads

WAITERS = 100
PROCESSES = 20
TTL = 5.0
MOST_PERCENT = 2.0


def measure(effort: Effort, folder: Path) -> Case:
    groups = {
        "holdfast, 1 x 100": (Kind(sqlite_url(folder, "idle-1"), ttl=TTL), 1),
        "holdfast, 20 x 5": (Kind(sqlite_url(folder, "idle-20"), ttl=TTL), PROCESSES),
        "filelock, 1 x 100": (Kind(str(folder / "idle.lock"), 0.05), 1),
    }
    with ExitStack() as stack:
        workers: dict[str, list[Worker]] = {}
        for label, (kind, processes) in groups.items():
            opened = stack.enter_context(kind.open())
            assert opened.lock.acquire()
            workers[label] = [
                stack.enter_context(Worker(wait_in_threads, kind, WAITERS // processes))
                for _ in range(processes)
            ]
            opened.wait_for_waiters(WAITERS)
        _cpu_seconds(workers)  # all have begun
        time.sleep(1.0)
        began, before = time.monotonic(), _cpu_seconds(workers)
        time.sleep(effort.window)
        seconds, after = time.monotonic() - began, _cpu_seconds(workers)
    percent = {label: 100 * (after[label] - before[label]) / seconds for label in groups}
    return _case(percent)


def _cpu_seconds(workers: dict[str, list[Worker]]) -> dict[str, float]:
    for group in workers.values():
        for worker in group:
            worker.tell("cpu")
    return {label: sum(worker.answer() for worker in group) for label, group in workers.items()}


def _case(percent: dict[str, float]) -> Case:
    peer = percent["filelock, 1 x 100"]
    case_rows = []
    for label, value in percent.items():
        part = value / peer if peer and label.startswith("holdfast") else None
        case_rows.append(
            Row(
                label,
                "% of a core",
                Spread.of([value]),
                None if part is None else Spread.of([part]),
                ours=label.startswith("holdfast"),
            )
        )
    most = max(value for label, value in percent.items() if label.startswith("holdfast"))
    return Case(
        "idle",
        f"{WAITERS} idle waiters, SQLite",
        f"CPU time of {WAITERS} threads that wait for one held lock, in 1 process and in "
        f"{PROCESSES}. The ttl is {TTL:g} s, so that each of them asks about once meanwhile, in "
        "case its holder has died; at the default of 30 s they ask a sixth as often.",
        "filelock, 1 x 100",
        tuple(case_rows),
        (figure_at_most(f"at most {MOST_PERCENT:g} % of a core", [most], MOST_PERCENT, "%"),),
    )
