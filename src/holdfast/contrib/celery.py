"""Celery: tasks that run one at a time, and a beat that may run on several hosts.

>>> import celery, holdfast
>>> from holdfast.contrib.celery import single_instance
>>> app = celery.Celery("shop")
>>> client = holdfast.Client("memory://celery-example")

>>> @app.task
... @single_instance(client, "import:{supplier}")
... def import_catalogue(supplier: int) -> str:
...     return f"imported {supplier}"

>>> import_catalogue(7)
'imported 7'
>>> with client.lock("import:7"):
...     print(import_catalogue(7), import_catalogue(8))
None imported 8
>>> client.close()
"""

import functools
import inspect
import json
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any, ParamSpec, TypeVar

import celery
import celery.beat

from holdfast.cell import Cell
from holdfast.client import Client
from holdfast.errors import LockError
from holdfast.functions import check_plain_function
from holdfast.lease import Lease

__all__ = ["Scheduler", "single_instance"]

P = ParamSpec("P")
R = TypeVar("R")

logger = logging.getLogger("holdfast")

STANDBY = 5.0
"""Seconds between two tries of a beat that stands by."""


def single_instance(
    client: Client,
    name: str | Callable[..., str],
    *,
    timeout: float = 0.0,
    ttl: float | None = None,
    retry: float | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R | None]]:
    """Decorate the function of a task, below `@app.task`: it runs while it holds a lock.

    `name` is text, such as `"import:{supplier}"`, filled with the arguments of the task; or a
    function of them. If another task has the lock for longer than `timeout` seconds (default: do
    not wait), this one is skipped, and returns None; with `retry`, it is tried again after so many
    seconds, as often as the task's `max_retries` allows. If the lease is lost, the task fails with
    `LockLost` when it ends.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R | None]:
        check_plain_function(function)
        signature = inspect.signature(function)

        def lock_name(*args: P.args, **kwargs: P.kwargs) -> str:
            if not isinstance(name, str):
                return name(*args, **kwargs)
            arguments = signature.bind(*args, **kwargs)
            arguments.apply_defaults()
            return name.format_map(arguments.arguments)

        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R | None:
            lock = client.lock(lock_name(*args, **kwargs), timeout=timeout, ttl=ttl)
            with lock.or_skip as lease:
                if lease is not None:
                    return function(*args, **kwargs)
            if retry is not None:
                task: Any = celery.current_task
                raise task.retry(countdown=retry)
            logger.info("%r is held by another task: this one is skipped", lock.name)
            return None

        run.__signature__ = signature  # type: ignore[attr-defined]  # Celery checks arguments by it
        return run

    return decorate


class Scheduler(celery.beat.Scheduler):  # type: ignore[misc]  # Celery has no types
    """`celery -A shop beat -S holdfast.contrib.celery:Scheduler`, on as many hosts as you like: one
    of them sends the tasks, the others stand by.

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
