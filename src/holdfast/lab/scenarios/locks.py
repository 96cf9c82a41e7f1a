"""The locks that scenarios try: holdfast's own, and two careless ones that are still in use.

The careless ones must fail. Each leaves out one thing that a lock must have.
"""

import secrets
import time
from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias
from urllib.parse import urlsplit

import holdfast
from holdfast.client import Client
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
    """A key on one Redis server, deleted by its holder without comparing the value.

    `in_one_step`: its time is set together with the key; otherwise by `extend`, one step later.
    """

    def __init__(self, url: str, ttl: float, *, in_one_step: bool) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "", parts.port or 0)
        self._ttl = ttl
        self._in_one_step = in_one_step
        self._connection: Connection | None = None

    def acquire(self, *, timeout: float) -> "CarelessLease | None":
        """Poll for at most `timeout` seconds."""
        give_up_at = time.monotonic() + timeout
        while True:
            asked = time.monotonic()
            if self._set():
                return CarelessLease(self, asked + self._ttl)
            if time.monotonic() > give_up_at:
                return None
            time.sleep(0.01)

    def command(self, *words: str | int) -> object:
        """Send a command. A connection that fails is closed; the command may still be executed."""
        if self._connection is None:
            self._connection = Connection(self._address, ANSWER_WITHIN)
        try:
            return self._connection.command(*words)
        except OSError:
            self._connection.close()
            self._connection = None
            raise

    def expire(self) -> None:
        """Set its time."""
        self.command("PEXPIRE", KEY, int(self._ttl * 1000))

    def _set(self) -> bool:
        options = ("PX", int(self._ttl * 1000)) if self._in_one_step else ()
        return self.command("SET", KEY, secrets.token_hex(4), "NX", *options) == "OK"


class CarelessLease:
    """It has no fence, and learns of no loss."""

    fence = None

    def __init__(self, lock: CarelessLock, until: float) -> None:
        self._lock = lock
        self._until = until

    @property
    def held(self) -> bool:
        """It never learns of a loss."""
        return True

    def remaining(self) -> float:
        """What should be left."""
        return max(0.0, self._until - time.monotonic())

    def extend(self) -> None:
        """Set its time."""
        self._lock.expire()

    def release(self) -> None:
        """Delete the key, also if another client holds it."""
        self._lock.command("DEL", KEY)

    def on_lost(self, callback: Callable[[object], object]) -> None:
        """It is never called."""


Lock: TypeAlias = holdfast.Lock | CarelessLock
Lease: TypeAlias = holdfast.Lease | CarelessLease


def make_lock(recipe: Recipe, url: str, ttl: float, *, renew: bool) -> Lock:
    """The lock of one client."""
    if recipe is Recipe.HOLDFAST:
        return Client(url, ttl=ttl).lock(LOCK, renew=renew)
    return CarelessLock(url, ttl, in_one_step=recipe is Recipe.SET_DEL)
