"""What happened in a run, simulated or real: events that checkers judge and pictures draw.

All instants are seconds on one true clock, from the beginning of the run: virtual time in the
simulator, `time.monotonic` (one for all processes of a machine) in a real run. A client that
believes in a skewed clock is recorded by when it *truly* stopped believing.
"""

from bisect import insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import NamedTuple, TypeAlias


class Kind(StrEnum):
    """What kind of event it is."""

    ASKED = "asked"
    """A client asks for a lock."""
    GRANTED = "granted"
    """The client holds it, with this fence, until `until`."""
    REFUSED = "refused"
    """Not granted: held, timed out, error, cancelled; `note` says which."""
    EXTENDED = "extended"
    """The lease is valid until `until` now."""
    RELEASING = "releasing"
    """The client has stopped working under the lock, and begins to release it."""
    RELEASED = "released"
    """The release is done."""
    LOST = "lost"
    """The client has learned that it lost the lock."""
    WROTE = "wrote"
    """A register (`name`) accepted a write, with this fence; `note` is the value.

    Recorded by the register itself, so that the order of these events is the order of the writes.
    """
    REJECTED = "rejected"
    """A register rejected a write, because of this fence."""
    PAUSED = "paused"
    """A client or a node is stopped; its connections stay open."""
    RESUMED = "resumed"
    CRASHED = "crashed"
    STARTED = "started"
    """A client or node starts, or restarts; `note` says whether it lost its data."""
    CUT = "cut"
    """Messages from `who` to `peer`, or to each of several, are not delivered."""
    HEALED = "healed"
    """Messages from `who` to `peer` are delivered again; without a peer: the last fault is over."""
    JUMPED = "jumped"
    """A clock jumped; `note` says by how much."""
    NOTED = "noted"
    """Anything worth a line in a picture."""


HOLD_KINDS = frozenset(
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
"""The kinds that belong to one acquisition."""


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
    shares: int | None = None
    """With a grant that others may share: how many may (0: any number)."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What went wrong, and where in the history."""

    label: str
    """In a few words: "two holders at once"."""
    text: str
    """What happened, in a sentence for a person."""
    at: float
    until: float
    """`inf`: it never ended."""
    who: tuple[str, ...] = ()
    """The clients and nodes it is about."""


Span: TypeAlias = tuple[float, float]
"""From one instant to another, which is no part of it."""


@dataclass(slots=True)
class Hold:
    """One acquisition, from being asked for to its end."""

    who: str
    name: str
    hold: str
    asked: float
    fence: int | None = None
    shares: int = 1
    """How many leases of its kind may be valid at once; 0: any number."""
    deadlines: list[tuple[float, float]] = field(default_factory=list)
    """Since when which deadline was believed in."""
    first: dict[Kind, float] = field(default_factory=dict)
    """When it was granted, released and so on, for the first time."""

    def __str__(self) -> str:
        return self.who if self.fence is None else f"{self.who} (fence {self.fence})"

    def at(self, kind: Kind) -> float:
        """When that happened first; `inf`: never."""
        return self.first.get(kind, inf)

    @property
    def granted(self) -> float | None:
        return self.first.get(Kind.GRANTED)

    @property
    def answered(self) -> float:
        """When its client knew whether it had got it; `inf`: never."""
        return min(self.at(Kind.GRANTED), self.at(Kind.REFUSED))

    @property
    def given_up(self) -> float:
        """When its holder released it or learned of its loss; `inf`: neither."""
        return min(map(self.at, (Kind.RELEASING, Kind.RELEASED, Kind.LOST, Kind.REFUSED)))

    @property
    def ended(self) -> float:
        """When the client no longer believed that it had the lock: released, lost or expired."""
        deadline = self.deadlines[-1][1] if self.deadlines else inf
        return min(deadline, self.given_up)

    @property
    def terms(self) -> list[tuple[float, float, float]]:
        """Each deadline: since when it was believed in, itself, and when it was renewed."""
        renewals = [since for since, _ in self.deadlines[1:]]
        pairs = zip(self.deadlines, [*renewals, inf], strict=False)  # one too many if there is none
        return [(since, deadline, renewed) for (since, deadline), renewed in pairs]

    @property
    def spans(self) -> list[Span]:
        """The window without its holes: when its holder did believe, by its own deadlines.

        There is a hole where it was extended after its time had run out. What was granted when its
        time had run out already has no span at all. A crash ends none: a lease outlives its holder.
        """
        found: list[Span] = []
        for since, deadline, renewed in self.terms:
            end = min(deadline, renewed, self.given_up)
            if since >= end:
                continue
            if found and found[-1][1] == since:
                since = found.pop()[0]
            found.append((since, end))
        return found


class Outage(NamedTuple):
    """A client or a node was paused, or down, or did not reach others."""

    who: str
    kind: Kind
    """`PAUSED`, `CRASHED` or `CUT`."""
    peer: str
    """From whom it was cut off."""
    since: float
    until: float
    """`inf`: to the end."""


_ENDS = {
    Kind.RESUMED: (Kind.PAUSED,),
    Kind.CRASHED: (Kind.PAUSED,),
    Kind.STARTED: (Kind.PAUSED, Kind.CRASHED),
    Kind.HEALED: (Kind.CUT,),
}
"""Which outages an event ends."""


def seconds(instant: float) -> str:
    """An instant, or how long something took, for people."""
    return f"{instant:.3f} s"


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
        return [event for event in self.events if event.kind in kinds]

    def outages(self) -> Iterator[Outage]:
        """When clients and nodes were paused, down or cut off, in the order of their ends."""
        present: dict[tuple[str, Kind, str], Outage] = {}
        for event in self.events:
            all_healed = event.kind is Kind.HEALED and not event.peer  # the last fault is over
            for key, outage in list(present.items()):
                same = (outage.who, outage.peer) == (event.who, event.peer)
                if outage.kind in _ENDS.get(event.kind, ()) and (same or all_healed):
                    yield present.pop(key)._replace(until=event.at)
            if event.kind in (Kind.PAUSED, Kind.CRASHED, Kind.CUT):
                key = (event.who, event.kind, event.peer)
                present.setdefault(key, Outage(*key, event.at, inf))
        yield from present.values()

    def holds(self) -> list[Hold]:
        """Every acquisition, in the order in which they were asked for.

        One whose request was not recorded was asked for at its first event.
        """
        found: dict[str, Hold] = {}
        for event in self.events:
            if event.kind in HOLD_KINDS and event.hold:
                new = Hold(event.who, event.name, event.hold, event.at)
                hold = found.setdefault(event.hold, new)
                if event.kind is Kind.GRANTED and hold.granted is None:
                    hold.fence = event.fence
                    hold.shares = 1 if event.shares is None else event.shares
                if event.kind in (Kind.GRANTED, Kind.EXTENDED):
                    hold.deadlines.append((event.at, event.until))
                hold.first.setdefault(event.kind, event.at)
        return list(found.values())

    def leases(self) -> dict[str, list[Hold]]:
        """By name, the holds that were granted, in the order of their grants."""
        found: dict[str, list[Hold]] = {}
        for hold in sorted(self.holds(), key=lambda hold: hold.granted or 0.0):
            if hold.granted is not None:
                found.setdefault(hold.name, []).append(hold)
        return found


class Absences:
    """The pauses and crashes of all clients."""

    def __init__(self, history: History) -> None:
        self._pauses: dict[str, list[Span]] = {}
        self._crashes: dict[str, list[float]] = {}
        for outage in history.outages():
            if outage.kind is Kind.PAUSED:
                self._pauses.setdefault(outage.who, []).append((outage.since, outage.until))
        for event in history.of(Kind.CRASHED):
            self._crashes.setdefault(event.who, []).append(event.at)

    def crash(self, who: str, since: float) -> float:
        """When it crashed next: the end of all that it had or wanted then; `inf`: it did not."""
        return next((at for at in self._crashes.get(who, ()) if at >= since), inf)

    def due(self, who: str, expired: float, tolerance: float) -> float:
        """By when it must have noticed what is true since `expired`.

        A pause within the time for it gives it that time anew, from when it goes on.
        """
        due = expired + tolerance
        for since, until in self._pauses.get(who, ()):
            if since <= due:
                due = max(due, until + tolerance)
        return due
