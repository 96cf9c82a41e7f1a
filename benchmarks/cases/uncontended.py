"""Nobody else wants the lock: what does an acquire and a release cost on SQLite?"""

import asyncio
from pathlib import Path

import holdfast
from benchmarks.measure import Case, Effort, Target, interleave, ratio, rows, seconds_each
from benchmarks.peers import TTL, BareSql, file_lock_pair, sqlite_url

MOST_OVER_BARE = 1.6
LEAST_UNDER_FILELOCK = 2.0


def measure(effort: Effort, folder: Path) -> Case:
    bare = BareSql(folder)
    batch = 4 * effort.batch  # longer than what else the machine does in between
    bare_pair, file_pair = bare.pair(), file_lock_pair(folder)
    with asyncio.Runner() as runner, holdfast.Client(sqlite_url(folder)) as client:
        lock = client.lock("bench", ttl=TTL)
        aclient = holdfast.AsyncClient(sqlite_url(folder, "async"))
        alock = aclient.lock("bench", ttl=TTL)

        def pair() -> None:
            lease = lock.acquire()
            assert lease
            lease.release()

        def block() -> None:
            with lock:
                pass

        async def apairs() -> None:
            for _ in range(batch):
                lease = await alock.acquire()
                assert lease
                await lease.release()

        values = interleave(
            {
                "bare SQL": lambda: seconds_each(bare_pair, batch),
                "holdfast": lambda: seconds_each(pair, batch),
                "holdfast, with": lambda: seconds_each(block, batch),
                "holdfast, async": lambda: seconds_each(lambda: runner.run(apairs()), 1) / batch,
                "filelock": lambda: seconds_each(file_pair, batch),
            },
            effort.rounds,
        )
        runner.run(aclient.aclose())
    bare.close()
    over = ratio(values, "holdfast", "bare SQL")
    under = ratio(values, "filelock", "holdfast")
    assert over
    assert under
    return Case(
        "uncontended",
        "Uncontended acquire and release, SQLite",
        "One pair, nobody else there. *bare SQL* is the same statements with the same parameters "
        "(a new holder id each time) and settings through `sqlite3`.",
        "bare SQL",
        rows(values, "µs", 1e6, "bare SQL"),
        (
            Target(
                f"at most {MOST_OVER_BARE} times the bare SQL",
                f"{over.median:.2f} times",
                over.median <= MOST_OVER_BARE,
            ),
            Target(
                f"at least {LEAST_UNDER_FILELOCK:g} times as fast as filelock",
                f"{under.median:.2f} times",
                under.median >= LEAST_UNDER_FILELOCK,
            ),
        ),
    )
