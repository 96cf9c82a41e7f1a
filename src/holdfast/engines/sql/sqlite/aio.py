"""The store of an SQLite file, for asyncio.

A statement takes some microseconds, and a thread several times as much: so the event loop runs it
itself, if nothing is in the way. A worker thread asks when the file is busy, and for waiters.
"""

import asyncio
from collections.abc import Sequence

from holdfast.core.messages import Acquire, Answer, Release, Request
from holdfast.core.ports import Clock
from holdfast.engines.offload import Offloaded
from holdfast.engines.sql.sqlite.threads import SqliteStore


class AsyncSqliteStore(Offloaded):
    """One SQLite file."""

    def __init__(self, store: SqliteStore, clock: Clock) -> None:
        super().__init__(store, "sqlite", clock)
        self._file = store

    async def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Answer at once where that is possible, else by the worker."""
        request = requests[0]
        if isinstance(request, (Acquire, Release)) and request.holder not in self._asking:
            await asyncio.sleep(0)  # let other tasks run
            answers = self._file.ask_now(requests)
            if answers is not None:
                return answers
        return await super().ask(requests, until)
