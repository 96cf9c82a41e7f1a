"""What the library logs: each cause of a repeated failure once in a while, with a count."""

import logging

import pytest

from holdfast.drivers.hooks import REPEAT_AFTER, EventLog
from holdfast.events import (
    Event,
    HookFailed,
    InternalError,
    Lost,
    NodeFailed,
    NodeRecovered,
    RenewalFailed,
)


class Logged:
    """A log on a clock of its own."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "holdfast")
        self._caplog = caplog
        self.now = 0.0
        self._log = EventLog(lambda: self.now)

    def lines(self, *events: Event) -> list[str]:
        self._caplog.clear()
        for event in events:
            self._log(event)
        return [record.getMessage() for record in self._caplog.records]


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Logged:
    return Logged(caplog)


def renewal(n: int, why: str = "h1:1: refused") -> RenewalFailed:
    return RenewalFailed(f"job:{n}", "me", n, 5 - n / 100, why)


def test_a_lost_majority_is_one_line_and_then_a_count(logged: Logged) -> None:
    """Of many leases, with times and ports that vary."""
    many = [renewal(n, f"h1:6379: no answer in 0.0{n} s; h2:{n}: refused") for n in range(1, 100)]
    assert len(logged.lines(*many)) == 1
    logged.now = REPEAT_AFTER
    [line] = logged.lines(many[0])
    assert line.endswith("(98 more like this since the last line)")


def test_each_node_and_each_cause_has_a_line(logged: Logged) -> None:
    events = [NodeFailed(node, why) for node in ("h1:1", "h2:1") for why in ("refused", "silent")]
    assert len(logged.lines(*events, *events)) == 4
    assert len(logged.lines(renewal(1), renewal(1, "h1:1: wrong password"))) == 2


def test_each_kind_of_error_of_a_hook_has_a_line(logged: Logged) -> None:
    """The fault: for a minute, a hook that failed once could fail for another reason unseen."""
    events = [HookFailed("a hook", kind("no")) for kind in (KeyError, OSError)]
    assert len(logged.lines(*events, *events)) == 2


def test_a_node_that_comes_and_goes(logged: Logged) -> None:
    flapping: list[Event] = [NodeFailed("h1:1", "refused"), NodeRecovered("h1:1")] * 10
    assert len(logged.lines(*flapping)) == 2


def test_a_loss_and_a_defect_are_always_logged(logged: Logged) -> None:
    lost, defect = (
        Lost("job", "me", 7, "it was taken", 1.0),
        InternalError("a callback", ValueError("no")),
    )
    assert len(logged.lines(lost, lost, defect, defect)) == 4
