"""From a history to lanes: who gets one, and what is in it.

A node's vote is an event like any other: `NOTED`, with the client as `peer` and the instant at
which the vote ends as `until`. A crash of the node ends it, too, and so does its next vote for the
same name; one that ends at once only takes the last one back.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import inf

from holdfast.lab.history import Event, History, Hold, Kind
from holdfast.lab.pictures.faults import cuts, standstills
from holdfast.lab.pictures.lanes import Lane, Look, Mark, Role, Span, Symbol
from holdfast.lab.pictures.words import clean, is_vote, short_fences

_WRITES = (Kind.WROTE, Kind.TURNED_AWAY)
_BY_CLIENTS = (
    Kind.ASKED, Kind.GRANTED, Kind.REFUSED, Kind.EXTENDED, Kind.RELEASING, Kind.RELEASED,
    Kind.LOST, *_WRITES,
)  # fmt: skip
_SYMBOLS = {
    Kind.REFUSED: Symbol.REFUSED,
    Kind.LOST: Symbol.LOST,
    Kind.WROTE: Symbol.WROTE,
    Kind.TURNED_AWAY: Symbol.TURNED_AWAY,
    Kind.PAUSED: Symbol.PAUSED,
    Kind.CRASHED: Symbol.CRASHED,
    Kind.STARTED: Symbol.STARTED,
    Kind.JUMPED: Symbol.JUMPED,
    Kind.NOTED: Symbol.NOTED,
}


def lanes_of(history: History) -> list[Lane]:
    """Every lane of a history: what belongs to nobody, clients, registers, nodes."""
    clients = {event.who for event in history.of(*_BY_CLIENTS)}
    lanes = _Lanes(history, clients)
    crashes: dict[str, list[float]] = {}
    for crash in history.of(Kind.CRASHED):
        crashes.setdefault(crash.who, []).append(crash.at)
    for hold in history.holds():
        died = next((at for at in crashes.get(hold.who, ()) if at >= hold.asked), inf)
        lanes.of(hold.who).spans += _hold_spans(hold, lanes, died)
    for who, span in [*_votes(history, lanes), *standstills(history), *cuts(history)]:
        lanes.of(who).spans.append(span)
    down: set[str] = set()
    for event in history:
        if _is_worth_a_mark(event, down):
            lanes.for_mark(event).marks.append(_mark(event, lanes))
        if event.kind is Kind.CRASHED:
            down.add(event.who)
        elif event.kind is Kind.STARTED:
            down.discard(event.who)
    return lanes.all


def names_in(history: History) -> set[str]:
    """What may be written beside a lane."""
    names = {name for event in history for name in (event.who, event.peer)}
    return {clean(name) for name in names | {event.name for event in history.of(*_WRITES)}}


class _Lanes:
    """All lanes, by whose they are; and what is written the same way in all of them."""

    def __init__(self, history: History, clients: set[str]) -> None:
        registers = {event.name for event in history.of(*_WRITES)}
        named = {event.who for event in history} | {event.peer for event in history}
        self.tints = {name: number for number, name in enumerate(_sorted(clients))}
        self.fences = short_fences({e.fence for e in history if e.fence is not None})
        self.several_locks = len({event.name for event in history.of(Kind.ASKED)}) > 1
        self._run = [Lane("", Role.RUN)] if any(map(_is_of_the_run, history)) else []
        self._people = {
            name: Lane(clean(name), Role.CLIENT, self.tints[name]) for name in self.tints
        }
        self._registers = {name: Lane(clean(name), Role.REGISTER) for name in _sorted(registers)}
        nodes = _sorted(named - clients - {""})
        self._people |= {name: Lane(clean(name), Role.NODE) for name in nodes}

    def of(self, who: str) -> Lane:
        """The lane of a client, or of a node; of the run, if it is nobody's."""
        return self._people[who] if who in self._people else self._run[0]

    def for_mark(self, event: Event) -> Lane:
        """Where an event is marked: a write at its register, the rest where it happened."""
        if event.kind in _WRITES:
            return self._registers[event.name]
        return self._run[0] if _is_of_the_run(event) else self.of(event.who)

    @property
    def all(self) -> list[Lane]:
        """From top to bottom."""
        people = list(self._people.values())
        clients = [lane for lane in people if lane.role is Role.CLIENT]
        nodes = [lane for lane in people if lane.role is Role.NODE]
        return [*self._run, *clients, *self._registers.values(), *nodes]


def _sorted(names: Iterable[str]) -> list[str]:
    """As people count: n2 before n10."""
    return sorted(names, key=lambda name: re.sub(r"\d+", lambda digits: digits[0].zfill(9), name))


def _is_of_the_run(event: Event) -> bool:
    """Whether it happened to nobody in particular."""
    return not event.who or (event.kind is Kind.HEALED and not event.peer)


def _hold_spans(hold: Hold, lanes: _Lanes, died: float) -> Iterator[Span]:
    """The wait for a lock, the time in which it was had, and the time that giving it back took."""
    tint = lanes.tints[hold.who]
    ends = [end for end in (hold.granted, hold.refused, hold.lost, died) if end is not None]
    yield Span(Look.WAITING, hold.asked, min(ends), tint, group=hold.hold)
    if hold.granted is None:
        return
    fence = "" if hold.fence is None else lanes.fences[hold.fence]
    labels = (f"fence {fence}", fence) if fence else ()
    if lanes.several_locks:
        name = clean(hold.name)
        labels = (f"{name}, fence {fence}", f"{name} {fence}", *labels[1:]) if fence else (name,)
    notches = tuple(since for since, _ in hold.deadlines[1:])
    # What was granted too late was never valid, but was granted.
    for since, until in hold.spans or [(hold.granted, hold.granted)]:
        yield Span(Look.HOLDING, since, until, tint, labels, hold.hold, notches)
    if hold.releasing is not None and hold.released is not None:
        yield Span(Look.WAITING, hold.releasing, hold.released, tint, group=hold.hold)


def _votes(history: History, lanes: _Lanes) -> Iterator[tuple[str, Span]]:
    """What each node had promised to whom."""
    standing: dict[tuple[str, str], Span] = {}
    for event in history.of(Kind.NOTED, Kind.CRASHED):
        for vote in [vote for vote in standing if _ends_vote(event, *vote)]:
            span = standing.pop(vote)
            yield vote[0], replace(span, until=min(span.until, event.at))
        if is_vote(event) and event.until > event.at:
            labels = (clean(event.peer),)
            span = Span(Look.VOTE, event.at, event.until, lanes.tints.get(event.peer), labels)
            standing[event.who, event.name] = span
    yield from ((node, span) for (node, _), span in standing.items())


def _ends_vote(event: Event, node: str, name: str) -> bool:
    if event.who != node:
        return False
    return event.kind is Kind.CRASHED or (is_vote(event) and event.name == name)


def _is_worth_a_mark(event: Event, down: set[str]) -> bool:
    """Most of a lock's life shows as spans; a first start shows as nothing."""
    if event.kind is Kind.HEALED:
        return not event.peer
    if event.kind is Kind.STARTED:
        return event.who in down or bool(event.note)
    return event.kind in _SYMBOLS and not is_vote(event)


def _mark(event: Event, lanes: _Lanes) -> Mark:
    note, who = clean(event.note), clean(event.who)
    symbol = _SYMBOLS.get(event.kind, Symbol.HEALED)
    tint = lanes.tints.get(event.who)
    if event.kind in _WRITES:
        fence = "" if event.fence is None else f" {lanes.fences[event.fence]}"
        value = "turned away" if event.kind is Kind.TURNED_AWAY else note
        short = f"{who}{fence}"
        return Mark(
            symbol, event.at, (f"{short}: {value}", short) if value else (short,), tint, who
        )
    if event.kind is Kind.NOTED:
        return Mark(symbol, event.at, (note,), tint)
    said = symbol.value
    return Mark(symbol, event.at, (f"{said}: {note}", said) if note else (said,), tint)
