"""The history of a run, and the faults that wait for an event."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from holdfast.lab.history import Event, Finding, History, Kind
from holdfast.lab.simulator.driver import Timeline


class Mark(StrEnum):
    """What a fault may wait for."""

    START = "start"
    """The beginning of the run."""
    ASKED = "asked"
    GRANTED = "granted"
    EXTENDED = "extended"
    RELEASING = "releasing"
    RELEASED = "released"
    REFUSED = "refused"
    LOST = "lost"
    DEADLINE = "deadline"
    """The end of a lease, as it was when it was granted."""
    SENT_ACQUIRE = "sent Acquire"
    """A client has sent an acquire to the nodes; it has not arrived yet."""
    SENT_RELEASE = "sent Release"
    SENT_EXTEND = "sent Extend"
    SENT_RAISE = "sent Raise"
    SENT_REPAIR = "sent Repair"


@dataclass(frozen=True, slots=True)
class When:
    """An instant, relative to an event: `delay` seconds after the nth event of its kind."""

    mark: Mark
    nth: int = 1
    delay: float = 0.0
    who: int | None = None
    """Which client's event; None: any client's."""

    def __str__(self) -> str:
        if self.mark is Mark.START:
            return f"at {self.delay:.4f} s"
        whose = "" if self.who is None else f" of c{self.who}"
        return f"{self.delay:+.4f} s from {self.mark} #{self.nth}{whose}"


class Record:
    """Records events, and starts the faults that wait for them."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.history = History()
        self.findings: list[Finding] = []
        self._counts: Counter[tuple[str, int | None]] = Counter()
        self._due: dict[tuple[str, int | None, int], list[tuple[float, Callable[[], None]]]] = {}

    def when(self, when: When, action: Callable[[], None]) -> None:
        """Do something then; never, if that never happens."""
        if when.mark is Mark.START:
            self.timeline.at(when.delay, action)
        else:
            place = (when.mark.value, when.who, when.nth)
            self._due.setdefault(place, []).append((when.delay, action))

    def add(self, who: str, kind: Kind, *, number: int | None = None, **details: Any) -> None:
        """Something happens. `number`: which client it is; `details`: the rest of the `Event`."""
        event = Event(self.timeline.now, who, kind, **details)
        self.history.add(event)
        self._mark(kind.value, number, event.at)
        if kind is Kind.GRANTED:
            self._mark(Mark.DEADLINE.value, number, event.until)

    def sent(self, kind: str, number: int | None) -> None:
        """A client has sent a request."""
        self._mark(f"sent {kind}", number, self.timeline.now)

    def find(self, label: str, text: str, *who: str) -> None:
        """A promise was not kept."""
        now = self.timeline.now
        self.findings.append(Finding(label, text, now, now, who))

    def fails(self, text: str) -> None:
        """Something happened that must not happen in any run."""
        self.find("internal error", text)

    def _mark(self, mark: str, number: int | None, at: float) -> None:
        for who in (None, number) if number is not None else (None,):
            self._counts[mark, who] += 1
            for delay, action in self._due.pop((mark, who, self._counts[mark, who]), ()):
                self.timeline.at(at + delay, action)
