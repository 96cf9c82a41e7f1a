"""Four processes add to one number, one at a time: $HOLDFAST_URL names the engine of the lock."""

import multiprocessing
from pathlib import Path

import holdfast

COUNTER = Path("counter.txt")
PROCESSES, ADDITIONS = 4, 10


def add() -> None:
    """Read the number, add one and write it: without the lock, additions would be lost."""
    with holdfast.Client() as client:
        for _ in range(ADDITIONS):
            with client.lock("count", ttl=10):
                COUNTER.write_text(str(int(COUNTER.read_text()) + 1))


if __name__ == "__main__":
    COUNTER.write_text("0")
    workers = [multiprocessing.Process(target=add) for _ in range(PROCESSES)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(f"{PROCESSES} processes added {ADDITIONS} each: {COUNTER.read_text()}")
