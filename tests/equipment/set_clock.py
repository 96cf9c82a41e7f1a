"""Plays a test again that failed while the host's clock was set.

Servers end leases by the wall clock, clients by one that nobody sets. A virtual machine that is
stopped and continued sets the one and not the other, and then leases overlap, as `guarantees` say.
That is no fault of the code, and no reason to fail; without a leap of the clock, a failure counts.
"""

import time
from collections.abc import Callable

import pytest
from _pytest.runner import runtestprotocol

LEAP = 0.2
"""Seconds; a clock that is only corrected gains less during a test."""


def ahead() -> float:
    """How far the wall clock is ahead of the one that nobody sets."""
    return time.time() - time.monotonic()


def was_set(play: Callable[[], bool]) -> bool:
    """Whether a test failed, and the clock was set meanwhile."""
    before = ahead()
    return not play() and abs(ahead() - before) > LEAP


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    hook = item.ihook
    reports: list[pytest.TestReport] = []

    def play() -> bool:
        reports[:] = runtestprotocol(item, log=False, nextitem=nextitem)
        return not any(report.failed for report in reports)

    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    if was_set(play):
        item._initrequest()  # type: ignore[attr-defined]  # it has no public name
        play()
    for report in reports:
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
