"""A client in a process of its own, so that it can be stopped and killed: orders in, events out.

An order is a method of `Worker` and its arguments. Its outcome, a renewal and a loss are reported
as events. The end of the pipe ends the process. Its lock is one of holdfast's, or one of two that
careless recipes make.
"""

import logging
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from multiprocessing import connection as pipes
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

import holdfast
from holdfast.client import Client
from holdfast.errors import LockError, NotHeld
from holdfast.events import Renewed
from holdfast.lab.history import Event, Kind
from holdfast.lab.servers.redis import Connection

LOCK = "job"
"""The name of the lock."""

KEY = f"holdfast:{LOCK}"
"""Where holdfast keeps it on a Redis server."""


ANSWER_WITHIN = 0.3
"""How long the careless wait for an answer, in seconds."""


class Recipe(StrEnum):
    """How a client locks."""

    HOLDFAST = "holdfast"
    SET_DEL = "SET NX PX, and DEL"
    SETNX_EXPIRE = "SETNX, then EXPIRE"


class CarelessLock:
    """A key on one Redis server, deleted by its holder without comparing the value. It is its own
    lease, which has no fence, and learns of no loss.

    `in_one_step`: its time is set together with the key; otherwise its holder dies before EXPIRE.
    """

    fence = None
    held = True

    def __init__(self, url: str, ttl: float, *, in_one_step: bool) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "", parts.port or 0)
        self._ttl, self._until = ttl, 0.0
        self._options = ("PX", int(ttl * 1000)) if in_one_step else ()

    def acquire(self, *, timeout: float) -> "CarelessLock | None":
        """Poll for at most `timeout` seconds."""
        give_up_at = time.monotonic() + timeout
        while True:
            asked = time.monotonic()
            if self._command("SET", KEY, secrets.token_hex(4), "NX", *self._options) == "OK":
                self._until = asked + self._ttl
                return self
            if time.monotonic() > give_up_at:
                return None
            time.sleep(0.01)

    def remaining(self) -> float:
        return max(0.0, self._until - time.monotonic())

    def release(self) -> None:
        """Delete the key, also if another client holds it."""
        self._command("DEL", KEY)

    def on_lost(self, callback: Callable[[object], object]) -> None:
        """It is never called."""

    def _command(self, *words: str | int) -> object:
        """Send a command. If there is no answer, the connection is closed all the same; the command
        may still be executed."""
        with Connection(self._address, ANSWER_WITHIN) as connection:
            return connection.command(*words)


Lock: TypeAlias = holdfast.Lock | CarelessLock
Lease: TypeAlias = holdfast.Lease | CarelessLock


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
        self._lock = self._make_lock()
        self._registers = Registers(Path(role.registers))
        self._lease: Lease | None = None
        self._hold = ""
        self._asked = 0
        self._holds: dict[int | None, str] = {}
        """By fence: a renewal may be reported when the next lease is asked for already."""

    def _make_lock(self) -> Lock:
        role = self._role
        if role.recipe is Recipe.HOLDFAST:
            client = Client(role.url, ttl=role.ttl, hooks=[self._look])
            return client.lock(LOCK, renew=role.renew)
        return CarelessLock(role.url, role.ttl, in_one_step=role.recipe is Recipe.SET_DEL)

    def _look(self, event: object) -> None:
        """Report a renewal, by when it happened: this thread may have been stopped since."""
        if isinstance(event, Renewed):
            at = self._now() - (time.time() - event.at)
            hold, until = self._holds[event.fence], at + event.remaining
            with self._reporting:
                self._send(Event(at, self._role.who, Kind.EXTENDED, LOCK, hold, event.fence, until))

    def acquire(self, timeout: float) -> None:
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
        self._lease = lease
        self._holds[lease.fence] = self._hold
        self._report(Kind.GRANTED, at=now, until=now + lease.remaining())
        lease.on_lost(lambda _: self._report(Kind.LOST))

    def extend(self) -> None:
        if isinstance(self._lease, holdfast.Lease):
            self._lease.extend()

    def release(self) -> None:
        self._report(Kind.RELEASING)
        try:
            self._mine().release()
        except NotHeld as error:
            self._report(Kind.NOTED, note=f"nothing to release: {error}")
        else:
            self._report(Kind.RELEASED)

    def check(self) -> None:
        mine = "is still held" if self._mine().held else "is lost"
        self._report(Kind.NOTED, note=f"the lock {mine}")

    def write(self, value: str, unchecked: bool) -> None:
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
    with pipes.Connection(pipe) as stage:
        worker = Worker(stage.recv(), stage.send)
        with suppress(EOFError):
            while True:
                order, *arguments = stage.recv()
                order(worker, *arguments)
