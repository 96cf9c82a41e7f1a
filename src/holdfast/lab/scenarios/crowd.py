"""Many clients in one process, so that all of them ask at the same instant: orders in, events out.

Each has connections and holder ids of its own. What all of them say has left before the first
answer is read. A machine that is too busy even for that is noticed, and then nothing is proved.
"""

import asyncio
import json
import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import Any

from holdfast.client import AsyncClient
from holdfast.core import quorum
from holdfast.errors import LockError
from holdfast.lab.history import Event, Kind
from holdfast.lab.scenarios.locks import LOCK
from holdfast.lease import AsyncLease

AT_ONCE = 0.005
"""Within how many seconds all must have asked, for it to be the same instant."""


@dataclass(frozen=True, slots=True)
class CrowdRole:
    """Who the clients are, and where each of them finds its nodes."""

    urls: dict[str, str]
    ttl: float
    began: float
    """When the run began, on `time.monotonic`."""
    who: str = "the crowd"

    def as_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))


class Member:
    """One of them."""

    def __init__(self, who: str, url: str, ttl: float) -> None:
        self.who = who
        self.hold = f"{who}1"
        self.asked_at = 0.0
        self._lock = AsyncClient(url, ttl=ttl).lock(LOCK, renew=False)

    async def connect(self) -> None:
        """Acquire the lock and release it, alone: this opens every connection."""
        async with self._lock:
            pass

    async def tries(self) -> AsyncLease | None:
        """Ask once, and let the vote stay split: a try of holdfast's own would settle it."""
        quorum.SETTLE_TIMEOUT = 0.0
        self.asked_at = time.monotonic()
        try:
            return await self._lock.acquire(timeout=0)
        except LockError:
            return None

    async def waits(self) -> AsyncLease | None:
        """Ask for as long as it takes."""
        return await self._lock.acquire()


class Crowd:
    """All of them."""

    def __init__(self, role: CrowdRole) -> None:
        self._began = role.began
        self._members = [Member(who, url, role.ttl) for who, url in role.urls.items()]

    async def carry_out(self, order: dict[str, Any]) -> None:
        """Carry out an order."""
        match order:
            case {"do": "connect"}:
                for member in self._members:
                    await member.connect()
                self._tell("", Kind.NOTED, note="all are connected")
            case {"do": "in step", "rounds": rounds, "pause": pause}:
                await self._in_step(rounds, pause)
            case {"do": "at random"}:
                await self._at_random()
            case _:
                raise ValueError(f"no such order: {order!r}")

    async def _in_step(self, rounds: int, pause: float) -> None:
        """All ask at once, and again after the same delay."""
        self._ask()
        for number in range(1, rounds + 1):
            if await self._round(number):
                return
            await asyncio.sleep(pause)
        for member in self._members:
            self._tell(member.who, Kind.REFUSED, hold=member.hold, note="gives up")

    async def _at_random(self) -> None:
        """All ask at once, and again when each of them sees fit."""
        self._ask()
        if await self._round(1):
            return
        waiting = {asyncio.create_task(member.waits()): member for member in self._members}
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            self._granted(waiting[task], task.result())

    async def _round(self, number: int) -> bool:
        """All ask at once; whether one of them gets the lock."""
        while True:
            leases = await asyncio.gather(*(member.tries() for member in self._members))
            winner = next((lease for lease in leases if lease is not None), None)
            if winner is None or self._asked_at_once():
                break
            self._tell("", Kind.NOTED, note="the machine held some of them up: once more")
            await winner.release()
        for member, lease in zip(self._members, leases, strict=True):
            self._granted(member, lease)
        if winner is None:
            self._tell("", Kind.NOTED, note=f"round {number}: no client has a majority")
        return winner is not None

    def _asked_at_once(self) -> bool:
        instants = [member.asked_at for member in self._members]
        return max(instants) - min(instants) < AT_ONCE

    def _ask(self) -> None:
        for member in self._members:
            self._tell(member.who, Kind.ASKED, hold=member.hold)

    def _granted(self, member: Member, lease: AsyncLease | None) -> None:
        if lease is not None:
            until, fence = self._now() + lease.remaining(), lease.fence
            self._tell(member.who, Kind.GRANTED, hold=member.hold, fence=fence, until=until)

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _tell(
        self,
        who: str,
        kind: Kind,
        *,
        hold: str = "",
        fence: int | None = None,
        until: float = inf,
        note: str = "",
    ) -> None:
        event = Event(self._now(), who, kind, LOCK if who else "", hold, fence, until, note=note)
        print(event.as_json(), flush=True)


async def work(role: str) -> None:
    """Work until stdin ends."""
    logging.getLogger("holdfast").addHandler(logging.NullHandler())  # the events are enough
    crowd = Crowd(CrowdRole(**json.loads(role)))
    while line := await asyncio.to_thread(sys.stdin.readline):
        await crowd.carry_out(json.loads(line))


def main(arguments: Sequence[str]) -> None:
    """The program."""
    asyncio.run(work(arguments[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
