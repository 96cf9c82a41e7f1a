"""The same on `memory://`, where nothing but holdfast's own code is left; for orientation."""

import asyncio
from pathlib import Path

import holdfast
from benchmarks.measure import Case, Effort, Target, interleave, rows, seconds_each
from benchmarks.peers import TTL, thread_lock_pair

MOST_MICROSECONDS = 15.0


def measure(effort: Effort, folder: Path) -> Case:
    batch, thread_pair = effort.batch, thread_lock_pair()
    with asyncio.Runner() as runner, holdfast.Client("memory://bench") as client:
        lock = client.lock("bench", ttl=TTL)
        aclient = holdfast.AsyncClient("memory://bench")
        alock = aclient.lock("async", ttl=TTL)
        plain = asyncio.Lock()

        def pair() -> None:
            lease = lock.acquire()
            assert lease
            lease.release()

        async def apairs() -> None:
            for _ in range(batch):
                lease = await alock.acquire()
                assert lease
                await lease.release()

        async def plain_pairs() -> None:
            for _ in range(batch):
                await plain.acquire()
                plain.release()

        values = interleave(
            {
                "threading.Lock": lambda: seconds_each(thread_pair, batch),
                "asyncio.Lock": lambda: seconds_each(lambda: runner.run(plain_pairs()), 1) / batch,
                "holdfast": lambda: seconds_each(pair, batch),
                "holdfast, async": lambda: seconds_each(lambda: runner.run(apairs()), 1) / batch,
            },
            effort.rounds,
        )
        runner.run(aclient.aclose())
    case_rows = rows(values, "µs", 1e6, "threading.Lock")
    ours = next(row.spread.median for row in case_rows if row.label == "holdfast")
    return Case(
        "memory",
        "Uncontended acquire and release, memory",
        "One pair within one process: a lease with its fence, its holder id and its place on the "
        "renewer's schedule, against a lock that has none of them.",
        "threading.Lock",
        case_rows,
        (
            Target(
                f"under {MOST_MICROSECONDS:g} µs, for orientation",
                f"{ours:.1f} µs",
                ours < MOST_MICROSECONDS,
            ),
        ),
    )
