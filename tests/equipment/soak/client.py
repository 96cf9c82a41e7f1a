"""One client, in a process of its own: acquires locks, writes under them, releases them, in a loop.

It writes what happens to it to a file, an event a line, on the clock of its parent. It is
careless on purpose: it writes without a look at its lease, so that fences have something to do.
"""

import asyncio
import inspect
import json
import os
import random
import sys
import time
from collections.abc import Awaitable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from holdfast.client import AsyncClient, Client
from holdfast.errors import LockError, NotHeld
from holdfast.lab.history import Event, Kind
from holdfast.lease import AsyncLease, Lease
from tests.equipment.soak.journal import as_line
from tests.equipment.soak.register import Pen, Write

T = TypeVar("T")

STEP = 0.02
"""Seconds between two looks at a lease, or two tries to get one."""

BRIEFLY = 0.05
"""How long most leases are held for, on average, in seconds."""

LONG = 0.1
"""The share of those that are held for so long that they must be renewed."""

PATIENT = 0.3
"""The share of those requests that wait for their turn."""

HELD = "held by another client"

BLINK = 0.001
"""Two readings that lie further apart than this many seconds are taken again: it was stopped."""

MOVED = 0.01
"""By how many seconds a deadline must have moved to be another one."""


@dataclass(frozen=True, slots=True)
class Role:
    """Who a client is, and what it is to do."""

    who: str
    awaits: bool
    """Whether it uses asyncio."""
    url: str
    ttl: float
    names: list[str]
    """The locks to take. The register that each protects has the same name."""
    registers: int
    """The port of the registers."""
    folder: str
    """Where to keep a journal of its own, `PID.jsonl`."""
    closing: str
    """The file whose existence says that it is time to leave."""
    began: float
    """When the soak began, on `time.monotonic`."""

    def as_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))


class Contender:
    """A client at work."""

    def __init__(self, role: Role, client: Client | AsyncClient) -> None:
        self._role = role
        self._client = client
        self._pen = Pen(role.registers)
        file = Path(role.folder) / f"{os.getpid()}.jsonl"
        self._journal = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._random = random.Random()
        self._turns = 0

    async def contend(self) -> None:
        """Take one lock after another until it is time to leave."""
        while not self._is_time_to_leave():
            self._turns += 1
            await self._take_turn(
                self._random.choice(self._role.names),
                f"{self._role.who}/{os.getpid()}/{self._turns}",
            )

    def _is_time_to_leave(self) -> bool:
        return Path(self._role.closing).exists()

    async def _take_turn(self, name: str, hold: str) -> None:
        self._tell(Kind.ASKED, name, hold)
        lease, refusal = await self._acquire(name)
        if lease is None:
            self._tell(Kind.REFUSED, name, hold, note=refusal)
            await asyncio.sleep(STEP)
        else:
            await self._work(lease, hold)
            await self._give_back(lease, hold)

    async def _acquire(self, name: str) -> tuple[Lease | AsyncLease | None, str]:
        """A lease, or why there is none. Some wait, and some try once and come again."""
        waits = self._random.random() < PATIENT
        timeout = self._random.uniform(0, 2 * self._role.ttl) if waits else 0.0
        try:
            return await settled(self._client.lock(name).acquire(timeout=timeout)), HELD
        except LockError as error:
            return None, str(error)

    async def _work(self, lease: Lease | AsyncLease, hold: str) -> None:
        at, until = self._deadline(lease)
        self._tell(Kind.GRANTED, lease.name, hold, at=at, fence=lease.fence, until=until)
        lease.on_lost(lambda lost: self._tell(Kind.LOST, lost.name, hold, fence=lost.fence))
        leave_at = at + self._length_of_work()
        while self._now() < leave_at and not lease.lost:
            self._write(lease, hold)
            await asyncio.sleep(STEP)
            at, later = self._deadline(lease)
            if later > until + MOVED and lease.held:
                until = later
                self._tell(Kind.EXTENDED, lease.name, hold, at=at, fence=lease.fence, until=until)
        self._write(lease, hold)

    def _length_of_work(self) -> float:
        if self._random.random() < LONG:
            return self._role.ttl
        return self._random.expovariate(1 / BRIEFLY)

    async def _give_back(self, lease: Lease | AsyncLease, hold: str) -> None:
        self._tell(Kind.RELEASING, lease.name, hold, fence=lease.fence)
        try:
            await settled(lease.release())
        except NotHeld as error:
            self._tell(Kind.NOTED, lease.name, hold, note=str(error))
        except LockError as error:
            self._tell(Kind.NOTED, lease.name, hold, note=f"not released: {error}")
        else:
            self._tell(Kind.RELEASED, lease.name, hold, fence=lease.fence)

    def _write(self, lease: Lease | AsyncLease, hold: str) -> None:
        value = f"{hold} at {self._now():.3f}"
        self._pen.write(Write(self._role.who, hold, lease.name, lease.fence, value))

    def _deadline(self, lease: Lease | AsyncLease) -> tuple[float, float]:
        """An instant, and until when the lease is valid as seen from there."""
        while True:
            now, remaining = self._now(), lease.remaining()
            if self._now() - now < BLINK:
                return now, now + remaining

    def _now(self) -> float:
        return time.monotonic() - self._role.began

    def _tell(
        self, kind: Kind, name: str, hold: str, *, at: float | None = None, **details: Any
    ) -> None:
        instant = self._now() if at is None else at
        event = Event(instant, self._role.who, kind, name=name, hold=hold, **details)
        # In one piece: the renewer's thread tells of losses, and a kill may come at any time.
        os.write(self._journal, as_line(event).encode())


async def settled(result: T | Awaitable[T]) -> T:
    """The result of a call, sync or async. A blocking one may block: the loop has no other task."""
    if inspect.isawaitable(result):
        return await result
    return result


async def main(line: str) -> None:
    """Contend in this role."""
    role = Role(**json.loads(line))
    if role.awaits:
        async with AsyncClient(role.url, ttl=role.ttl) as client:
            await Contender(role, client).contend()
    else:
        with Client(role.url, ttl=role.ttl) as client:
            await Contender(role, client).contend()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
