"""What happened in a run, simulated or real: events that checkers judge and pictures draw.

All instants are seconds on one true clock, from the beginning of the run: virtual time in the
simulator, `time.monotonic` (one for all processes of a machine) in a real run. A client that
believes in a skewed clock is recorded by when it *truly* stopped believing.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from math import inf
from typing import Any


class Kind(StrEnum):
    """What an event tells."""

    ASKED = "asked"
    """A client asks for a lock."""
    GRANTED = "granted"
    """It has it: with this fence, valid until `until`."""
    REFUSED = "refused"
    """It did not get it: conflict, time out, error, cancelled; `note` says which."""
    EXTENDED = "extended"
    """What it has is valid until `until` now."""
    RELEASING = "releasing"
    """It works no more under the lock, and begins to give it back."""
    RELEASED = "released"
    """It has given it back."""
    LOST = "lost"
    """It was told that it has it no more."""
    WROTE = "wrote"
    """A register (`name`) took a write, with this fence; `note` is the value."""
    TURNED_AWAY = "turned away"
    """A register refused a write, because of this fence."""
    PAUSED = "paused"
    """A client or a node stands still, connections and all."""
    RESUMED = "resumed"
    CRASHED = "crashed"
    STARTED = "started"
    """A client or node begins, or begins again; `note` says whether it forgot anything."""
    CUT = "cut"
    """No message gets from `who` to `peer` any more."""
    HEALED = "healed"
    """Messages get from `who` to `peer` again; without a peer: the last fault is over."""
    JUMPED = "jumped"
    """Somebody's clock jumped; `note` says by how much."""
    NOTED = "noted"
    """Anything worth a line in a picture."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened."""

    at: float
    who: str
    """The client or the node."""
    kind: Kind
    name: str = ""
    """The lock, or the register."""
    hold: str = ""
    """Which acquisition it belongs to: unique in the run."""
    fence: int | None = None
    until: float = inf
    peer: str = ""
    note: str = ""

    def as_json(self) -> str:
        """One line."""
        fields = {key: value for key, value in asdict(self).items() if value not in ("", None, inf)}
        return json.dumps(fields, ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str) -> "Event":
        """What `as_json` wrote."""
        fields: dict[str, Any] = json.loads(line)
        return cls(**fields | {"kind": Kind(fields["kind"])})


@dataclass(frozen=True, slots=True)
class Finding:
    """A promise that was not kept, and where in the history."""

    rule: str
    """Which promise, in a word or two: "one holder at a time"."""
    text: str
    """What happened, in a sentence for a person."""
    at: float
    until: float
    who: tuple[str, ...] = ()
    """The clients and nodes it is about."""


@dataclass(slots=True)
class Hold:
    """One acquisition, from being asked for to its end."""

    who: str
    name: str
    hold: str
    asked: float
    granted: float | None = None
    fence: int | None = None
    deadlines: list[tuple[float, float]] = field(default_factory=list)
    """Since when which deadline was believed in."""
    releasing: float | None = None
    released: float | None = None
    lost: float | None = None
    refused: float | None = None

    @property
    def ended(self) -> float:
        """When the client no longer believed that it had the lock: released, told, or too late."""
        deadline = self.deadlines[-1][1] if self.deadlines else inf
        ends = (deadline, self.releasing, self.released, self.lost)
        return min(end for end in ends if end is not None)

    @property
    def window(self) -> tuple[float, float]:
        """When its holder was entitled to believe that it had the lock."""
        if self.granted is None:
            raise ValueError(f"{self.hold} was never granted")
        return self.granted, self.ended


class History:
    """All events of one run, in the order of time."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.events = sorted(events, key=lambda event: event.at)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def add(self, event: Event) -> None:
        """Append what happened after everything else."""
        self.events.append(event)

    def of(self, *kinds: Kind) -> list[Event]:
        """The events of these kinds."""
        return [event for event in self.events if event.kind in kinds]

    def holds(self) -> list[Hold]:
        """Every acquisition that was asked for, in that order."""
        found: dict[str, Hold] = {}
        for event in self.events:
            if event.kind is Kind.ASKED:
                found[event.hold] = Hold(event.who, event.name, event.hold, event.at)
            elif event.hold in found:
                _follow(found[event.hold], event)
        return list(found.values())

    def as_lines(self) -> str:
        """One event a line, as JSON."""
        return "".join(f"{event.as_json()}\n" for event in self.events)

    @classmethod
    def from_lines(cls, text: str) -> "History":
        """What `as_lines` wrote, possibly by several processes."""
        return cls(Event.from_json(line) for line in text.splitlines() if line)


def _follow(hold: Hold, event: Event) -> None:
    match event.kind:
        case Kind.GRANTED:
            hold.granted, hold.fence = event.at, event.fence
            hold.deadlines.append((event.at, event.until))
        case Kind.EXTENDED:
            hold.deadlines.append((event.at, event.until))
        case Kind.RELEASING:
            hold.releasing = event.at
        case Kind.RELEASED:
            hold.released = event.at
        case Kind.LOST:
            hold.lost = event.at
        case Kind.REFUSED:
            hold.refused = event.at
