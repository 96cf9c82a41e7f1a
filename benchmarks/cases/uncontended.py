"""No contention: what does an acquire and a release cost on SQLite?"""

from functools import partial
from pathlib import Path

from benchmarks import pairs, peers
from benchmarks.contenders import Openings, compare
from benchmarks.measure import Case, Effort, at_most, faster, rows
from benchmarks.peers import sqlite_url

OURS, ASYNC = "holdfast", "holdfast, async"
FLOOR, PEER = "bare SQL", "filelock"
MOST_OVER_FLOOR = 1.6
MOST_ASYNC_OVER_SYNC = 2.5
LEAST_UNDER_PEER = 2.0


def measure(effort: Effort, folder: Path) -> Case:
    openings: Openings = {
        FLOOR: partial(peers.bare_sql, folder),
        OURS: partial(pairs.by_thread, sqlite_url(folder)),
        "holdfast, with": partial(pairs.in_block, sqlite_url(folder, "block")),
        ASYNC: partial(pairs.by_tasks, sqlite_url(folder, "async"), 1),
        PEER: partial(peers.file_lock, folder),
    }
    # Batches are longer than what else the machine does in between.
    values = compare(openings, 4 * effort.batch, effort.rounds)
    return Case(
        "uncontended",
        "Uncontended acquire and release, SQLite",
        f"One uncontended pair. *{FLOOR}* is the same statements with the same parameters "
        "(a new holder id each time) and settings through `sqlite3`.",
        FLOOR,
        rows(values, "µs", 1e6, FLOOR),
        (
            at_most(values, OURS, FLOOR, MOST_OVER_FLOOR),
            at_most(values, ASYNC, OURS, MOST_ASYNC_OVER_SYNC),
            faster(values, OURS, PEER, LEAST_UNDER_PEER),
        ),
    )
