"""When a client could neither act nor be told anything."""

from collections.abc import Iterator
from math import inf

from holdfast.lab.history import History, Kind
from holdfast.lab.hold import Span


class Absences:
    """The pauses and crashes of everybody."""

    def __init__(self, history: History) -> None:
        self._pauses: dict[str, list[Span]] = {}
        self._crashes: dict[str, list[float]] = {}
        asleep: dict[str, float] = {}
        for event in history.of(Kind.PAUSED, Kind.RESUMED, Kind.CRASHED, Kind.STARTED):
            if event.kind is Kind.PAUSED:
                asleep.setdefault(event.who, event.at)
            elif event.who in asleep:
                self._pauses.setdefault(event.who, []).append((asleep.pop(event.who), event.at))
            if event.kind is Kind.CRASHED:
                self._crashes.setdefault(event.who, []).append(event.at)
        for who, since in asleep.items():
            self._pauses.setdefault(who, []).append((since, inf))

    def crash(self, who: str, since: float) -> float:
        """When it crashed next: the end of all that it had or wanted then; `inf`: it did not."""
        return next((at for at in self._crashes.get(who, ()) if at >= since), inf)

    def due(self, who: str, expired: float, tolerance: float) -> float:
        """By when it must have been told what is true since `expired`.

        A pause within the time for it gives it that time anew, from when it goes on.
        """
        due = expired + tolerance
        for since, until in self._pauses.get(who, ()):
            if since <= due:
                due = max(due, until + tolerance)
        return due

    def present(self, who: str, span: Span) -> Iterator[Span]:
        """What is left of a span without its pauses. An instant is a span, too."""
        begin, end = span
        for since, until in self._pauses.get(who, ()):
            if since < end and until > begin:
                if begin < since:
                    yield begin, since
                begin = until
        if begin <= end:
            yield begin, end
