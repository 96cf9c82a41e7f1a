"""A register that is guarded by a lock, and a program that counts in it until its input ends:
`python -m tests.engines.etcd.register URL FILE fenced|unfenced`. It prints how often it counted."""

import fcntl
import json
import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import holdfast

TTL = 2.0
A_TURN = 0.02


class Register:
    """A number in a file. A write is refused if it carries an older fence than one before it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, Any]:
        with self._alone():
            return self._read()

    def enter(self) -> int:
        """What the number is; and note who is about to change it."""
        with self._alone():
            found = self._read()
            self._write({**found, "inside": os.getpid()})
            return int(found["value"])

    def write(self, value: int, fence: int) -> bool:
        with self._alone():
            found = self._read()
            if fence and fence < found["fence"]:
                return False
            self._write({"value": value, "fence": fence, "inside": 0})
            return True

    def _read(self) -> dict[str, Any]:
        text = self.path.read_text() if self.path.exists() else ""
        found: dict[str, Any] = json.loads(text or '{"value": 0, "fence": 0, "inside": 0}')
        return found

    def _write(self, record: dict[str, Any]) -> None:
        self.path.write_text(json.dumps(record))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self.path.with_suffix(".mutex").open("w") as mutex:
            fcntl.flock(mutex, fcntl.LOCK_EX)
            yield


def count(url: str, register: Register, *, fenced: bool) -> int:
    counted = 0
    with holdfast.Client(url, ttl=TTL) as client:
        while not select.select([sys.stdin], [], [], 0)[0]:
            try:
                with client.lock("register") as lease:
                    value = register.enter()
                    time.sleep(A_TURN)
                    counted += register.write(value + 1, lease.fence if fenced else 0)
            except holdfast.LockError:
                continue  # it was lost meanwhile, as it is to be
    return counted


if __name__ == "__main__":
    print(count(sys.argv[1], Register(Path(sys.argv[2])), fenced=sys.argv[3] == "fenced"))
