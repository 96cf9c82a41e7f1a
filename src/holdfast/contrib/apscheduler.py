"""APScheduler (version 3): each host has a scheduler, and each job runs on one host.

>>> import holdfast
>>> from apscheduler.schedulers.background import BackgroundScheduler
>>> from holdfast.contrib.apscheduler import OneHostExecutor
>>> client = holdfast.Client("memory://apscheduler-example")
>>> scheduler = BackgroundScheduler(executors={"default": OneHostExecutor(client)})
>>> import threading
>>> done = threading.Event()
>>> job = scheduler.add_job(done.set, "interval", seconds=0.1, start_date="2026-01-01", id="report")
>>> scheduler.start()
>>> done.wait(60)
True
>>> scheduler.shutdown()
>>> client.close()
"""

import logging
from datetime import datetime
from functools import partial
from typing import Any

from apscheduler.events import EVENT_JOB_MISSED
from apscheduler.executors.base import run_job
from apscheduler.executors.pool import ThreadPoolExecutor

from holdfast.client import Client

__all__ = ["OneHostExecutor"]

logger = logging.getLogger("holdfast")


class OneHostExecutor(ThreadPoolExecutor):  # type: ignore[misc]  # APScheduler has no types
    """Runs jobs in threads, each of them only if no other host has run it for the same time.

    Hosts must give a job the same `id` and the same times: a cron, or an interval with a
    `start_date`. While a job runs, it holds the lock
    `apscheduler:` and its id; when it has ended, the time that it was due at is noted in the cell
    of that name. A host whose clock is late finds the note, and leaves the job out.
    """

    def __init__(
        self, client: Client, max_workers: int = 10, *, ttl: float | None = None, **options: Any
    ) -> None:
        super().__init__(max_workers, **options)
        self._client = client
        self._ttl = ttl

    def _do_submit_job(self, job: Any, run_times: list[datetime]) -> None:
        def ended(future: Any) -> None:
            error = future.exception()
            if error is None:
                self._run_job_success(job.id, future.result())
            else:
                self._run_job_error(job.id, error, error.__traceback__)

        self._pool.submit(partial(self._run, job, run_times)).add_done_callback(ended)

    def _run(self, job: Any, run_times: list[datetime]) -> list[Any]:
        """The events of those runs that are left to this host."""
        name = f"apscheduler:{job.id}"
        cell = self._client.cell(name)
        with self._client.lock(name, ttl=self._ttl).or_skip as lease:
            if lease is None:
                logger.info("%r runs on another host", job.id)
                return []
            noted = cell.get()
            last = float(noted.value or "-inf")
            due = [each for each in run_times if each.timestamp() > last]
            if not due:
                return []
            alias = job._jobstore_alias  # noqa: SLF001 - as the executors of APScheduler do
            events: list[Any] = run_job(job, alias, due, self._logger.name)
            ran = [event.scheduled_run_time for event in events if event.code != EVENT_JOB_MISSED]
            if ran:
                cell.set(str(ran[-1].timestamp()), expect=noted.version)
            return events
