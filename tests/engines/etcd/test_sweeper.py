"""The thread that revokes the spares which nobody wanted."""

import threading
import time

import pytest

from holdfast.engines.etcd import sweeper
from holdfast.engines.etcd.spares import NEVER, Spares
from holdfast.engines.etcd.sweeper import Sweeper
from tests.patience import wait_for

TTL = 60


def test_a_sweeper_that_fails_can_be_roused_again(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = [RuntimeError("no thread to be had")]
    failed: list[object] = []
    revoked: list[int] = []

    def revoke(leases: list[int]) -> None:
        if failing:
            raise failing.pop()
        revoked.extend(leases)

    monkeypatch.setattr(threading, "excepthook", failed.append)
    spares = Spares(lambda: 0.0)
    sweeping = Sweeper(spares, revoke)
    spares.keep(1, b"place", TTL, granted_at=NEVER)
    sweeping.rouse()
    wait_for(lambda: failed)
    spares.keep(2, b"place", TTL, granted_at=NEVER)
    sweeping.rouse()
    wait_for(lambda: revoked == [2])
    sweeping.stop()


def test_in_a_loop_one_sweeper_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """To start a thread for each spare would take longer than to do without one."""
    started: list[None] = []

    class Counted(Sweeper):
        def _sweep(self) -> None:
            started.append(None)
            super()._sweep()

    monkeypatch.setattr(sweeper, "LINGER", 600.0)
    spares = Spares(lambda: 0.0)
    counted = Counted(spares, lambda leases: None)
    for lease in range(100):
        spares.keep(lease, b"place", TTL, granted_at=0.0)
        counted.rouse()
        assert spares.take(TTL, b"place")
        time.sleep(0.001)  # the pace of the loop, not a wait for anything
    counted.stop()
    assert len(started) == 1
