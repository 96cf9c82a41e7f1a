"""Jobs of APScheduler that run on one host."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, EVENT_JOB_MISSED
from apscheduler.schedulers.background import BackgroundScheduler

from holdfast import Client
from holdfast.contrib.apscheduler import OneHostExecutor
from holdfast.lab.servers.process import wait_until


class Hosts:
    """Hosts with the same job, due at the same time."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.due = datetime.now(UTC)
        self.runs: list[str] = []
        self.events: list[int] = []

    @contextmanager
    def host(self, work: Callable[[], object] | None = None, **options: Any) -> Iterator[None]:
        """It has done with the job at the end."""
        with Client(self.url) as client:
            scheduler = BackgroundScheduler(executors={"default": OneHostExecutor(client)})
            options = {"misfire_grace_time": None} | options
            work = work or (lambda: self.runs.append("ran"))
            scheduler.add_job(work, "date", run_date=self.due, id="report", **options)
            scheduler.add_listener(
                lambda event: self.events.append(event.code),
                EVENT_JOB_EXECUTED | EVENT_JOB_ERROR | EVENT_JOB_MISSED,
            )
            scheduler.start()
            yield
            wait_until(lambda: not scheduler.get_jobs(), "the job is submitted", 60)
            scheduler.shutdown()


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    return Hosts(f"sqlite://{tmp_path}/locks.db")


def test_one_of_several_hosts_runs_a_job(hosts: Hosts) -> None:
    hosts.due += timedelta(seconds=0.5)
    with hosts.host(), hosts.host(), hosts.host():
        pass
    assert hosts.runs == ["ran"]
    assert hosts.events == [EVENT_JOB_EXECUTED]


def test_a_host_that_is_late_leaves_it_out_and_the_next_time_is_run(hosts: Hosts) -> None:
    with hosts.host():
        pass
    with hosts.host():
        pass
    assert hosts.runs == ["ran"]
    hosts.due += timedelta(milliseconds=1)
    with hosts.host():
        pass
    assert hosts.runs == ["ran", "ran"]


def test_a_job_is_left_out_while_another_host_runs_it(hosts: Hosts) -> None:
    with Client(hosts.url) as other, other.lock("apscheduler:report"), hosts.host():
        pass
    assert hosts.runs == []


def test_a_time_that_one_host_missed_another_one_runs(hosts: Hosts) -> None:
    hosts.due -= timedelta(hours=1)
    with hosts.host(misfire_grace_time=1):
        pass
    assert hosts.events == [EVENT_JOB_MISSED]
    with hosts.host():
        pass
    assert hosts.runs == ["ran"]


def test_a_job_that_fails_has_run(hosts: Hosts) -> None:
    def fail() -> None:
        hosts.runs.append("failed")
        raise OSError("no such file")

    with hosts.host(fail):
        pass
    with hosts.host(fail):
        pass
    assert hosts.runs == ["failed"]
    assert hosts.events == [EVENT_JOB_ERROR]


def test_an_engine_that_is_unreachable_is_logged(
    hosts: Hosts, caplog: pytest.LogCaptureFixture
) -> None:
    hosts.url = "redis://127.0.0.1:1"
    with hosts.host():
        pass
    assert "Error running job report" in caplog.text
    assert hosts.runs == []
