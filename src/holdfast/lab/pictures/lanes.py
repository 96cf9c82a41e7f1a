"""What a picture shows, in seconds: a lane for each client, register and node.

A *span* lasts (waiting, holding, a pause), a *mark* is an instant (lost, wrote, crashed). Of the
texts of a span, the first that fits is drawn. A client's *tint* is the number of its colour, in all
lanes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from math import inf

from holdfast.lab.history import HOLD_KINDS, Absences, Event, History, Hold, Kind
from holdfast.lab.pictures.sentences import WRITES, Facts, is_vote


class Role(Enum):
    """What a lane shows. In this order from top to bottom."""

    RUN = "run"
    CLIENT = "clients"
    REGISTER = "registers"
    NODE = "nodes"


class Look(Enum):
    """What a span shows: its character, and what a legend says of it."""

    WAITING = "─", "waits"
    HOLDING = "█", "holds the lock"
    EXPIRED = "▞", "lease expired, not noticed yet"
    VOTE = "▄", "voted"
    PAUSED = "░", "paused"
    DOWN = "╌", "down"
    CUT = "┄", "cut off"

    def __init__(self, character: str, meaning: str) -> None:
        self.character, self.meaning = character, meaning


class Symbol(Enum):
    """What a mark shows. The names are those of the events."""

    REFUSED = "□", "not granted"
    LOST = "◆", "lost"
    WROTE = "●", "write accepted"
    REJECTED = "⊘", "write rejected"
    PAUSED = "‖", "paused"
    CRASHED = "†", "crashed"
    STARTED = "▶", "started"
    HEALED = "✓", "last fault over"
    JUMPED = "◷", "clock jumped"
    NOTED = "•", "note"

    def __init__(self, character: str, meaning: str) -> None:
        self.character, self.meaning = character, meaning


@dataclass(frozen=True, slots=True)
class Span:
    """Something that lasts."""

    look: Look
    since: float
    until: float
    tint: int | None = None
    labels: tuple[str, ...] = ()
    group: str = ""
    """Spans of one group stand in one row."""
    notches: tuple[float, ...] = ()
    """When it was extended."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at an instant."""

    symbol: Symbol
    at: float
    label: str
    tint: int | None = None
    is_stray: bool = False
    """Whether a client did it under a lease that was not valid any more."""


@dataclass(slots=True)
class Lane:
    """The spans and marks of one client, register or node."""

    name: str
    role: Role
    tint: int | None = None
    spans: list[Span] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)


_OUTAGES = {Kind.PAUSED: Look.PAUSED, Kind.CRASHED: Look.DOWN, Kind.CUT: Look.CUT}
_EXPIRED = ("lease expired", "expired")
_AT_ONCE = 0.02
"""Seconds within which a holder that is not paused notices that its lease has expired."""


def lanes_of(history: History) -> list[Lane]:
    """Every lane of a history: the run itself, clients, registers, nodes."""
    lanes = _Lanes(history)
    absences = Absences(history)
    for hold in history.holds():
        died = absences.crash(hold.who, hold.asked)
        lanes.of(hold.who).spans += _hold_spans(hold, lanes, died)
    for vote in filter(is_vote, history):
        until = min(vote.until, _end_of_vote(vote, history))
        span = Span(Look.VOTE, vote.at, until, lanes.tints.get(vote.peer), (vote.peer,))
        lanes.of(vote.who).spans.append(span)
    for who, kind, peer, since, until in history.outages():
        labels = (f"does not reach {peer}", f"↛ {peer}", "↛") if kind is Kind.CUT else ()
        lanes.of(who).spans.append(Span(_OUTAGES[kind], since, until, labels=labels))
    for event in history:
        if _is_worth_a_mark(event, absences):
            lanes.for_mark(event).marks.append(_mark(event, lanes))
    return lanes.all


class _Lanes:
    """All lanes by role and name; and the colours and labels that all of them share."""

    def __init__(self, history: History) -> None:
        clients = {event.who for event in history.of(*HOLD_KINDS, *WRITES)}
        self.tints = {name: number for number, name in enumerate(sorted(clients))}
        self.facts = Facts(history)
        self.several_locks = len({event.name for event in history.of(Kind.ASKED)}) > 1
        self.end = history.end
        self._lanes: dict[tuple[Role, str], Lane] = {}
        for event in history:
            self.for_mark(event)
            for name in filter(None, (event.who, *event.peer.split(", "))):
                self.of(name)

    def of(self, who: str) -> Lane:
        """The lane of a client or a node; without a name, that of the run."""
        role = Role.CLIENT if who in self.tints else Role.NODE
        return self._lane(role if who else Role.RUN, who)

    def for_mark(self, event: Event) -> Lane:
        """Where an event is marked: a write at its register, the rest where it happened."""
        if event.kind in WRITES:
            return self._lane(Role.REGISTER, event.name)
        return self.of("" if event.kind is Kind.HEALED and not event.peer else event.who)

    def _lane(self, role: Role, name: str) -> Lane:
        tint = self.tints.get(name) if role is Role.CLIENT else None
        return self._lanes.setdefault((role, name), Lane(name, role, tint))

    @property
    def all(self) -> list[Lane]:
        roles = list(Role)
        return sorted(self._lanes.values(), key=lambda lane: (roles.index(lane.role), lane.name))


def _hold_spans(hold: Hold, lanes: _Lanes, died: float) -> Iterator[Span]:
    """The wait for a lock, the time in which it was held, and the time that its release took."""
    tint = lanes.tints[hold.who]
    end = min(hold.answered, hold.at(Kind.LOST), died)
    yield Span(Look.WAITING, hold.asked, end, tint, group=hold.hold)
    if hold.granted is None:
        return
    fence = "" if hold.fence is None else lanes.facts.fences[hold.fence]
    labels = (fence,) if fence else ()
    if lanes.several_locks:
        labels = (f"{hold.name} {fence}".rstrip(), *labels)
    notches = tuple(since for since, _ in hold.deadlines[1:])
    # What was granted too late was never valid, but was granted.
    for since, until in hold.spans or [(hold.granted, hold.granted)]:
        yield Span(Look.HOLDING, since, until, tint, labels, hold.hold, notches)
    expired, noticed = hold.deadlines[-1][1], min(hold.given_up, died, lanes.end)
    if expired + _AT_ONCE < noticed:
        yield Span(Look.EXPIRED, expired, noticed, None, _EXPIRED, hold.hold)
    releasing, released = hold.at(Kind.RELEASING), hold.at(Kind.RELEASED)
    if max(releasing, released) < inf:
        yield Span(Look.WAITING, releasing, released, tint, group=hold.hold)


def _end_of_vote(vote: Event, history: History) -> float:
    """When its node crashed, or voted again."""
    events = [event for event in history if event.who == vote.who and event.at > vote.at]
    ends = [event.at for event in events if event.kind is Kind.CRASHED or is_vote(event)]
    return min(ends, default=inf)


def _is_worth_a_mark(event: Event, absences: Absences) -> bool:
    """Most of a lock's life shows as spans; a first start shows as nothing."""
    if event.kind is Kind.HEALED:
        return not event.peer
    if event.kind is Kind.STARTED:
        return bool(event.note) or absences.crash(event.who, 0.0) <= event.at
    return event.kind.name in Symbol.__members__ and not is_vote(event)


def _mark(event: Event, lanes: _Lanes) -> Mark:
    note = event.note
    symbol = Symbol[event.kind.name]
    tint = lanes.tints.get(event.who)
    if event.kind in WRITES:
        value, stray = note, lanes.facts.is_stray(event)
        if event.kind is Kind.REJECTED:
            value = "rejected"
        elif stray:
            value = f"{note}, expired"
        label = f"{event.who} {lanes.facts.fence(event)}".rstrip()
        return Mark(symbol, event.at, f"{label}: {value}" if value else label, tint, stray)
    if event.kind is Kind.NOTED:
        return Mark(symbol, event.at, note, tint)
    text = symbol.meaning
    return Mark(symbol, event.at, f"{text}: {note}" if note else text, tint)
