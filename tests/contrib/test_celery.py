"""Locks in Celery's tasks, and beats that stand by."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import ModuleType

import pytest
from celery import Celery

import holdfast
from holdfast.contrib.celery import single_instance
from holdfast.contrib.celery_beat import STANDBY, Scheduler
from holdfast.lab.servers.process import wait_until
from holdfast.lab.servers.redis import RedisServer

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def shop() -> Iterator[ModuleType]:
    """The application, with a worker of two processes."""
    with pytest.MonkeyPatch.context() as patch, RedisServer() as server:
        patch.setenv("HOLDFAST_URL", server.url)
        from . import celery_app

        worker = [sys.executable, "-m", "celery", "-A", "tests.contrib.celery_app", "worker"]
        options = ["--pool", "prefork", "--concurrency", "2", "--without-mingle"]
        running = subprocess.Popen([*worker, *options], cwd=ROOT, env=os.environ)
        try:
            yield celery_app
        finally:
            running.terminate()
            running.wait(60)
            celery_app.client.close()
            celery_app.gate.close()
            celery_app.app.close()


@pytest.mark.slow
def test_a_task_is_skipped_or_tried_again_while_another_has_its_argument(shop: ModuleType) -> None:
    first = shop.import_or_skip.delay(7)
    wait_until(lambda: shop.client.inspect("import:7"), "the task runs", 60)
    assert shop.import_or_skip.delay(supplier=7).get(timeout=60) is None
    later = shop.import_or_retry.delay(7)
    wait_until(lambda: later.state == "RETRY", "the task was tried", 60)
    shop.gate.rpush("gate", "open", "open")
    assert first.get(timeout=60) == "imported 7"
    assert shop.import_or_skip.delay(8).get(timeout=60) == "imported 8"
    assert later.get(timeout=60) == "imported 7 later"


def test_defaults_of_arguments_are_part_of_the_name() -> None:
    with holdfast.Client("memory://celery-defaults") as client:

        @single_instance(client, "import:{supplier}:{full}")
        def task(supplier: int, full: bool = False) -> bool:
            return client.inspect("import:7:False") is not None

        assert task(7)
        assert not task(7, full=True)


def test_celery_checks_the_arguments_of_a_decorated_task() -> None:
    app = Celery("arguments", broker="memory://")
    with holdfast.Client("memory://celery-arguments") as client:

        @app.task  # type: ignore[untyped-decorator]
        @single_instance(client, "import")
        def task(supplier: int) -> None: ...

        with pytest.raises(TypeError, match="supplier"):
            task.delay()


class Beats:
    """Beats of one application, whose entry is due."""

    def __init__(self, url: str) -> None:
        self.app = Celery("beats", broker="memory://")
        self.app.conf.holdfast_url = url
        self.app.conf.beat_schedule = {"nightly": {"task": "report", "schedule": 3600.0}}
        self.due = self.app.now() - timedelta(days=1)
        self.beats: list[Scheduler] = []

    def start(self) -> Scheduler:
        beat = Scheduler(self.app)
        beat.schedule["nightly"].last_run_at = self.due
        self.beats.append(beat)
        return beat

    def sent(self) -> int:
        """How many tasks were sent meanwhile."""
        return int(self.app.control.purge())


@pytest.fixture
def beats(tmp_path: Path) -> Iterator[Beats]:
    beats = Beats(f"sqlite://{tmp_path}/locks.db")
    beats.sent()  # kombu's memory is one for the process
    yield beats
    for beat in beats.beats:
        beat.close()
    beats.app.close()


def test_one_beat_sends_and_the_next_goes_on_where_it_stopped(beats: Beats) -> None:
    first, second = beats.start(), beats.start()
    assert first.tick() == 0
    assert beats.sent() == 1
    assert first.tick() > 60
    assert [second.tick(), second.tick()] == [STANDBY, STANDBY]
    assert beats.sent() == 0
    first.close()
    assert second.tick() > 60  # it leads, and knows that the task was sent
    assert beats.sent() == 0


def test_a_beat_that_lost_its_lock_stands_by_and_comes_back(beats: Beats) -> None:
    first, second = beats.start(), beats.start()
    first.tick()
    with holdfast.Client(beats.app.conf.holdfast_url) as operator:
        assert operator.break_lock("celery-beat:beats")
        assert second.tick() > 60
        assert first._lease is not None
        with pytest.raises(holdfast.LockLost):
            first._lease.extend()
        assert first.tick() == STANDBY
    second.close()
    assert first.tick() > 60


@pytest.mark.slow
def test_what_could_not_be_noted_is_not_sent_and_is_sent_later(beats: Beats) -> None:
    with RedisServer() as server:
        beats.app.conf.holdfast_url = server.url
        beat = beats.start()
        assert beat._leads()
        beat.schedule["nightly"].last_run_at = beats.due
        server.freeze()
        assert beat.tick() == STANDBY
        assert beats.sent() == 0
        server.thaw()
        wait_until(lambda: beat.tick() == 0, "the beat sends", 60)
        assert beats.sent() == 1
        beat.close()
