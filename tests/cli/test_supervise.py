"""The order in which the supervisor acts, told by a command that only takes notes."""

from __future__ import annotations

import signal
import threading
from typing import Any

from holdfast.cli.child import Ended
from holdfast.cli.console import Output
from holdfast.cli.hold import _Run
from holdfast.cli.supervise import LossRule, Supervisor


class Notes:
    """Stands for the command, the lease, the signals and the terminal, and notes what is sent."""

    pid = 0
    lost = True

    def __init__(self, arrived: list[int]) -> None:
        self.arrived = arrived
        self.sent: list[int] = []

    def send(self, signum: int) -> bool:
        self.sent.append(signum)
        return True

    def poll(self) -> Ended | None:
        return Ended(0) if self.sent else None

    def received(self) -> list[int]:
        return self.arrived

    def group_lives(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self

    def __enter__(self) -> Notes:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


def test_a_lost_lease_kills_before_anything_is_continued() -> None:
    notes: Any = Notes([signal.SIGCONT])
    supervisor = Supervisor(
        notes, notes, "job", LossRule("term", 5), notes, notes, Output(quiet=True)
    )
    assert supervisor.watch() == 70
    assert notes.sent == [signal.SIGKILL]


class TakesTheWake:
    """Signals whose `ending` takes the wake out of the pipe together with the signals."""

    def __init__(self) -> None:
        self.looked, self.woken = threading.Event(), threading.Event()

    def acquire(self) -> str:
        self.looked.wait(10)  # the answer comes after the first look at it
        return "a lease"

    def ending(self) -> None:
        self.looked.set()
        self.woken.wait(10)

    def wake(self) -> None:
        self.woken.set()

    def wait(self, seconds: float) -> None:
        raise AssertionError("it would wait for ever")


def test_an_answer_that_comes_between_two_looks_is_seen() -> None:
    double: Any = TakesTheWake()
    answer: Any = _Run(double, double, double, double, double)._acquire(double.acquire)
    assert answer == "a lease"
