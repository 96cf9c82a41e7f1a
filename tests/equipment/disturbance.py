"""Plays a test again that failed while the machine was disturbed from outside. Any other failure
counts.

- *Its clock was set.* Servers end leases by the wall clock, clients by one that is never set. A
  virtual machine that is stopped and continued sets the one and not the other, and then leases
  overlap, as `guarantees` say.
- *It did not run.* The host of a virtual machine gave its time to others: then nothing is renewed.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

LEAP = 0.2
"""Seconds; a clock that is only corrected gains less during a test."""


def ahead() -> float:
    """How far the wall clock is ahead of the one that nobody sets."""
    return time.time() - time.monotonic()


STOLEN = 1.0
"""Seconds; as a rule, a host takes less than that from a test."""


def stolen() -> float:
    """For how long this machine could have run, and its host ran others; 0 if that is not known."""
    counters = Path("/proc/stat")
    if not counters.exists():
        return 0.0
    _, *ticks = counters.read_text().partition("\n")[0].split()
    return int(ticks[7]) / os.sysconf("SC_CLK_TCK")


def was_disturbed(play: Callable[[], bool]) -> bool:
    """Whether a test failed, and the machine was disturbed meanwhile."""
    was_ahead, had_stolen = ahead(), stolen()
    if play():
        return False
    return abs(ahead() - was_ahead) > LEAP or stolen() - had_stolen > STOLEN


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    hook = item.ihook
    reports: list[pytest.TestReport] = []

    def play() -> bool:
        reports[:] = runtestprotocol(item, log=False, nextitem=nextitem)
        return not any(report.failed for report in reports)

    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    if was_disturbed(play):
        item._initrequest()  # type: ignore[attr-defined]  # it has no public name
        play()
    for report in reports:
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
