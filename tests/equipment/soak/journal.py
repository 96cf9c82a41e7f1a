"""What happened so far, told by several threads, or by several processes in lines of JSON."""

import json
import threading
import time
from dataclasses import asdict
from math import inf
from typing import Any

from holdfast.lab.history import Event, Kind


def as_line(event: Event) -> str:
    """One line of JSON."""
    fields = {key: value for key, value in asdict(event).items() if value not in ("", None, inf)}
    return f"{json.dumps(fields, ensure_ascii=False)}\n"


def from_line(line: str) -> Event:
    """What `as_line` wrote."""
    fields: dict[str, Any] = json.loads(line)
    fields["kind"] = Kind(fields["kind"])
    return Event(**{"who": "", **fields})


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
