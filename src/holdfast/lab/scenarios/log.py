"""What happens on a stage, as it is reported; and waiting for it."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from holdfast.lab.history import Event, History, Kind

TIME_LIMIT = 20.0
"""How long anything may take on a busy machine, in seconds."""


class StageFailed(RuntimeError):
    """The story was aborted, so it has no outcome."""


class Log:
    """The events of one run. `show_event` is called with each, from whatever thread."""

    def __init__(self, show_event: Callable[[Event], None]) -> None:
        self._report = show_event
        self._began = time.monotonic()
        self._events: list[Event] = []
        self._names: dict[str, str] = {}  # never changed in place: threads look through it
        self._changed = threading.Condition()

    def history(self) -> History:
        """What happened so far."""
        with self._changed:
            return History(self._events)

    def now(self) -> float:
        """Seconds since the stage was set."""
        return time.monotonic() - self._began

    def record(self, event: Event) -> None:
        """Keep an event, show it, and wake `wait_until`."""
        for address, name in self._names.items():
            event = replace(event, note=event.note.replace(address, name))
        with self._changed:
            self._events.append(event)
            self._report(event)
            self._changed.notify_all()

    def note(self, who: str, kind: Kind, note: str = "", peer: str = "") -> None:
        """Keep what happens to a client or a node now."""
        self.record(Event(self.now(), who, kind, note=note, peer=peer))

    def calm(self) -> None:
        """The last fault is over: from here on, a free lock must be granted."""
        self.note("", Kind.HEALED)

    def let_pass(self, seconds: float) -> None:
        """Let some time of the story pass."""
        end = self.now() + seconds
        self.wait_until(lambda: self.now() >= end, "end")

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        """Poll until it holds; a story that makes no progress is aborted."""
        give_up_at = time.monotonic() + TIME_LIMIT
        while not condition():
            if time.monotonic() > give_up_at:
                raise StageFailed(f"no {what} within {TIME_LIMIT:g} s")
            with self._changed:
                self._changed.wait(0.01)
