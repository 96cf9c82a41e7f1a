"""A client in a process of its own, so that it can be stopped and killed: orders in, events out.

An order is a method of `Worker` and its arguments. Its outcome, a renewal and a loss are reported
as events. The end of the pipe ends the process.
"""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from math import inf
from multiprocessing.connection import Connection
from pathlib import Path

from holdfast.errors import LockError, NotHeld
from holdfast.lab.history import Event, Kind
from holdfast.lab.scenarios.locks import LOCK, Lease, Recipe, make_lock

TICK = 0.01
"""How often to look whether the lease was renewed, in seconds."""

MOVED = 0.005
"""By how much a deadline must have moved to be another one."""


PLAIN, FENCED = "plain", "fenced"

_TABLE = "CREATE TABLE IF NOT EXISTS register (name TEXT PRIMARY KEY, value TEXT, fence INTEGER)"
_WRITE = (
    "INSERT INTO register VALUES (:name, :value, :fence) ON CONFLICT (name) "
    "DO UPDATE SET value = excluded.value, fence = excluded.fence "
)
_UNLESS_STALE = "WHERE excluded.fence >= fence"

BUSY_TIMEOUT = 10.0


class Registers:
    """What the lock protects: two registers in one SQLite file, seen from one process.

    `plain` accepts every write. `fenced` keeps the greatest fence, and rejects a smaller one.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        with closing(self._connect()) as connection:
            connection.execute(_TABLE)

    def write(self, name: str, value: str, fence: int | None) -> tuple[bool, float]:
        """Write; whether it was accepted, and at which instant of `time.monotonic`."""
        statement = _WRITE + (_UNLESS_STALE if name == FENCED else "")
        with closing(self._connect()) as connection:
            # Until the commit no other process can write: instants are in the order of the writes.
            connection.execute("BEGIN IMMEDIATE")
            row = {"name": name, "value": value, "fence": fence}
            taken = connection.execute(statement, row).rowcount > 0
            at = time.monotonic()
            connection.execute("COMMIT")
        return taken, at

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._file, timeout=BUSY_TIMEOUT, isolation_level=None)


@dataclass(frozen=True, slots=True)
class Role:
    """The client that this process is, and how it locks."""

    who: str
    url: str
    ttl: float
    renew: bool
    recipe: Recipe
    registers: str
    """The file of the registers."""
    began: float
    """When the run began, on `time.monotonic`."""


class Worker:
    """Carries out orders, one at a time, with one lease at a time."""

    def __init__(self, role: Role, send: Callable[[Event], None]) -> None:
        self._role = role
        self._send = send
        self._reporting = threading.Lock()  # the renewer's thread reports losses
        self._lock = make_lock(role.recipe, role.url, role.ttl, renew=role.renew)
        self._registers = Registers(Path(role.registers))
        self._lease: Lease | None = None
        self._hold = ""
        self._asked = 0
        self._until = inf

    def look(self) -> None:
        """Report a renewal since the last look."""
        if self._lease is not None and self._lease.held:
            now, left = self._now(), self._lease.remaining()
            until = now + left
            if left > 0 and until > self._until + MOVED:
                self._until = until
                self._report(Kind.EXTENDED, at=now, until=until)

    def acquire(self, timeout: float) -> None:
        """Ask for the lock."""
        self._asked += 1
        self._hold, self._lease = f"{self._role.who}{self._asked}", None
        self._report(Kind.ASKED)
        try:
            lease = self._lock.acquire(timeout=timeout)
        except (LockError, OSError) as error:
            self._report(Kind.REFUSED, note=str(error))
            return
        if lease is None:
            self._report(Kind.REFUSED, note="held by another client")
            return
        now = self._now()
        self._lease, self._until = lease, now + lease.remaining()
        self._report(Kind.GRANTED, at=now, until=self._until)
        lease.on_lost(lambda _: self._report(Kind.LOST))

    def extend(self) -> None:
        """Let the lease last its whole time from now."""
        self._mine().extend()
        now = self._now()
        self._until = now + self._mine().remaining()
        self._report(Kind.EXTENDED, at=now, until=self._until)

    def release(self) -> None:
        """Release the lock."""
        self._report(Kind.RELEASING)
        try:
            self._mine().release()
        except NotHeld as error:
            self._report(Kind.NOTED, note=f"nothing to release: {error}")
        else:
            self._report(Kind.RELEASED)

    def check(self) -> None:
        """Report whether the lock is still held."""
        mine = "is still held" if self._mine().held else "is lost"
        self._report(Kind.NOTED, note=f"the lock {mine}")

    def write(self, value: str, unchecked: bool) -> None:
        """Write to both registers, if the lease is still held; `unchecked`: in any case."""
        lease = self._lease
        if lease is None or not (unchecked or lease.held):
            self._report(Kind.NOTED, note="does not write: the lock is lost")
            return
        for register in (FENCED, PLAIN):
            taken, at = self._registers.write(register, value, lease.fence)
            kind = Kind.WROTE if taken else Kind.REJECTED
            self._report(kind, at=at - self._role.began, name=register, note=value)

    def _mine(self) -> Lease:
        if self._lease is None:
            raise ValueError("there is no lease for this order")
        return self._lease

    def _now(self) -> float:
        return time.monotonic() - self._role.began

    def _report(
        self,
        kind: Kind,
        *,
        at: float | None = None,
        name: str = LOCK,
        until: float = inf,
        note: str = "",
    ) -> None:
        instant = self._now() if at is None else at
        fence = None if self._lease is None else self._lease.fence
        event = Event(instant, self._role.who, kind, name, self._hold, fence, until, note=note)
        with self._reporting:
            self._send(event)


def main(pipe: int) -> None:
    """Carry out orders until there is no stage any more."""
    logging.getLogger("holdfast").addHandler(logging.NullHandler())  # the events are enough
    with Connection(pipe) as stage:
        worker = Worker(stage.recv(), stage.send)
        while True:
            if not stage.poll(TICK):
                worker.look()
                continue
            try:
                order, *arguments = stage.recv()
            except EOFError:
                return
            order(worker, *arguments)
