"""What happened so far, told by several threads."""

import threading
import time

from holdfast.lab.history import Event, Kind


class Journal:
    """Events, on a clock that begins with it."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self._events: list[Event] = []
        self._mutex = threading.Lock()

    def now(self) -> float:
        """Seconds since it was begun."""
        return time.monotonic() - self.began

    def add(self, event: Event) -> None:
        """Keep an event."""
        with self._mutex:
            self._events.append(event)

    def note(self, who: str, kind: Kind, note: str = "", peer: str = "") -> None:
        """Keep what happens to a client or a node now."""
        self.add(Event(self.now(), who, kind, peer=peer, note=note))

    def latest(self, kind: Kind) -> Event | None:
        """The last event of this kind."""
        with self._mutex:
            return next((event for event in reversed(self._events) if event.kind is kind), None)

    def events(self) -> list[Event]:
        """All of them."""
        with self._mutex:
            return list(self._events)
