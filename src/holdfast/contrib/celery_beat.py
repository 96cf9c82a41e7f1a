"""Celery's beat on several hosts: one of them sends the tasks, the others stand by.

`celery -A shop beat -S holdfast.contrib.celery_beat:Scheduler`

>>> import celery
>>> from holdfast.contrib.celery_beat import Scheduler
>>> app = celery.Celery("shop")
>>> app.conf.holdfast_url = "memory://beat-example"
>>> app.conf.beat_schedule = {"nightly": {"task": "report", "schedule": 3600.0}}
>>> first, second = Scheduler(app), Scheduler(app)
>>> first.tick() > 60, second.tick()
(True, 5.0)
>>> first.close(); second.close()
"""

import functools
import json
import logging
from contextlib import suppress
from datetime import datetime
from typing import Any

import celery.beat

from holdfast.cell import Cell
from holdfast.client import Client
from holdfast.errors import LockError
from holdfast.lease import Lease

__all__ = ["Scheduler"]

logger = logging.getLogger("holdfast")

STANDBY = 5.0
"""Seconds between two tries of a beat that stands by."""


class Scheduler(celery.beat.Scheduler):  # type: ignore[misc]  # Celery has no types
    """A scheduler of beat that sends while it holds a lock.

    The locks are those of the setting `holdfast_url`, or else `$HOLDFAST_URL`. When each entry was
    last sent is noted in a cell there, so that the next beat goes on where the former one stopped.
    """

    _lease: Lease | None = None

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send what is due, if this beat is the one."""
        try:
            if self._leads():
                return float(super().tick(*args, **kwargs))
        except LockError as error:
            logger.warning("beat: %s; nothing is sent meanwhile", error)
            self._heap = None  # so that it is made anew, with the entry that was not sent
        return min(STANDBY, float(self.max_interval))

    def reserve(self, entry: Any) -> Any:
        """Note that an entry is sent, before it is."""
        sent = {entry.name: entry.default_now().isoformat()}
        self._cell.update(lambda noted: json.dumps(json.loads(noted or "{}") | sent))
        return super().reserve(entry)

    def close(self) -> None:
        """Let another beat go on."""
        super().close()
        lease, self._lease = self._lease, None
        if lease is not None:
            with suppress(LockError):  # it is lost, or ends with its ttl
                lease.release()
        client = self.__dict__.pop("_client", None)
        if client is not None:
            client.close()

    def _leads(self) -> bool:
        if self._lease is not None and self._lease.held:
            return True
        self._lease = None
        lease = self._client.lock(self._name).acquire(blocking=False)
        if lease is None:
            return False
        try:
            self._go_on()
        except BaseException:
            lease.release()
            raise
        self._lease = lease
        return True

    def _go_on(self) -> None:
        """Where the former beat stopped."""
        entries: Any = self.schedule
        for name, sent in json.loads(self._cell.get().value or "{}").items():
            if name in entries:
                entries[name].last_run_at = datetime.fromisoformat(sent)
        self._heap = None  # so that it is made anew

    @property
    def _name(self) -> str:
        return f"celery-beat:{self.app.main}"

    @functools.cached_property
    def _client(self) -> Client:
        return Client(self.app.conf.get("holdfast_url"))

    @property
    def _cell(self) -> Cell:
        return self._client.cell(self._name)
