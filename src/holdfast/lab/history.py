"""What happened in a run, simulated or real: events that checkers judge and pictures draw.

All instants are seconds on one true clock, from the beginning of the run: virtual time in the
simulator, `time.monotonic` (one for all processes of a machine) in a real run. A client that
believes in a skewed clock is recorded by when it *truly* stopped believing.
"""

import json
from bisect import insort
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from math import inf
from typing import Any

from holdfast.lab.hold import Hold, earlier

__all__ = ["OF_A_HOLD", "Event", "Finding", "History", "Hold", "Kind"]


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
    """A register (`name`) took a write, with this fence; `note` is the value.

    Recorded by the register itself, so that the order of these events is the order of the writes.
    """
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


OF_A_HOLD = frozenset(
    {
        Kind.ASKED,
        Kind.GRANTED,
        Kind.REFUSED,
        Kind.EXTENDED,
        Kind.RELEASING,
        Kind.RELEASED,
        Kind.LOST,
    }
)
"""What is told of one acquisition."""


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
    """Which acquisition it belongs to: unique in the run.

    One nested in another (a re-entrant lock) has an id of its own, and the same fence.
    """
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
        fields["kind"] = Kind(fields["kind"])
        return cls(**{"who": "", **fields})


@dataclass(frozen=True, slots=True)
class Finding:
    """A promise that was not kept, and where in the history."""

    rule: str
    """Which promise, in a word or two: "one holder at a time"."""
    text: str
    """What happened, in a sentence for a person."""
    at: float
    until: float
    """`inf`: it never ended."""
    who: tuple[str, ...] = ()
    """The clients and nodes it is about."""


class History:
    """All events of one run, in the order of time."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.events = sorted(events, key=lambda event: event.at)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    @property
    def end(self) -> float:
        """When the last thing happened."""
        return self.events[-1].at if self.events else 0.0

    def add(self, event: Event) -> None:
        """Put an event in its place: behind everything that happened no later."""
        insort(self.events, event, key=lambda each: each.at)

    def of(self, *kinds: Kind) -> list[Event]:
        """The events of these kinds."""
        return [event for event in self.events if event.kind in kinds]

    def holds(self) -> list[Hold]:
        """Every acquisition, in the order in which they were asked for.

        One whose asking was not recorded was asked for when it is first heard of.
        """
        found: dict[str, Hold] = {}
        for event in self.events:
            if event.kind in OF_A_HOLD and event.hold:
                new = Hold(event.who, event.name, event.hold, event.at)
                _follow(found.setdefault(event.hold, new), event)
        return list(found.values())

    def leases(self) -> dict[str, list[Hold]]:
        """By name, what was granted, in that order; nested holds are one lease."""
        found: dict[str, list[Hold]] = {}
        latest: dict[tuple[str, str, int | None], Hold] = {}
        for hold in sorted(self.holds(), key=lambda hold: hold.granted or 0.0):
            if hold.granted is None:
                continue
            outer = latest.get((hold.who, hold.name, hold.fence))
            if outer is not None and hold.fence is not None and hold.granted < outer.ended:
                outer.take_in(hold)
                continue
            lease = replace(hold, deadlines=list(hold.deadlines), nested=[])
            latest[hold.who, hold.name, hold.fence] = lease
            found.setdefault(hold.name, []).append(lease)
        return found

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
            if hold.granted is None:
                hold.granted, hold.fence = event.at, event.fence
            hold.deadlines.append((event.at, event.until))
        case Kind.EXTENDED:
            hold.deadlines.append((event.at, event.until))
        case Kind.RELEASING:
            hold.releasing = earlier(hold.releasing, event.at)
        case Kind.RELEASED:
            hold.released = earlier(hold.released, event.at)
        case Kind.LOST:
            hold.lost = earlier(hold.lost, event.at)
        case Kind.REFUSED:
            hold.refused = earlier(hold.refused, event.at)
