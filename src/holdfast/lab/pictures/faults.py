"""What was done to the clients and the nodes: pauses, crashes, cut links. As spans, in seconds."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf

from holdfast.lab.history import Event, History, Kind
from holdfast.lab.pictures.lanes import Look, Span
from holdfast.lab.pictures.words import clean

_BEGINS = {Kind.PAUSED: Look.PAUSED, Kind.CRASHED: Look.DOWN}
_ENDS = {
    Kind.RESUMED: (Look.PAUSED,),
    Kind.CRASHED: (Look.PAUSED,),
    Kind.STARTED: (Look.PAUSED, Look.DOWN),
}
_AT_ONCE = 0.005
"""Links that are cut, and healed, within this part of a run are one cut."""


def standstills(history: History) -> Iterator[tuple[str, Span]]:
    """Who was paused, or down, and when."""
    since: dict[tuple[str, Look], float] = {}
    for event in history.of(Kind.PAUSED, Kind.RESUMED, Kind.CRASHED, Kind.STARTED):
        for look in _ENDS.get(event.kind, ()):
            began = since.pop((event.who, look), None)
            if began is not None:
                yield event.who, Span(look, began, event.at)
        if event.kind in _BEGINS:
            since.setdefault((event.who, _BEGINS[event.kind]), event.at)
    for (who, look), began in since.items():
        yield who, Span(look, began, inf)


@dataclass(slots=True)
class _Cut:
    """Whom somebody does not reach, and who does not reach him, for one span of time."""

    since: float
    until: float
    reaches_not: list[str] = field(default_factory=list)
    reached_not_by: list[str] = field(default_factory=list)

    def labels(self) -> tuple[str, ...]:
        peers = list(dict.fromkeys(self.reaches_not + self.reached_not_by))
        names = ", ".join(clean(peer) for peer in peers)
        if set(self.reaches_not) == set(self.reached_not_by):
            said, arrow = "cut off from", "↮"
        elif not self.reached_not_by:
            said, arrow = "does not reach", "↛"
        elif not self.reaches_not:
            said, arrow = "is not reached by", "↚"
        else:
            said, arrow = "partly cut off from", "↮"
        return f"{said} {names}", f"{arrow} {names}", f"{arrow} {len(peers)}", arrow


def cuts(history: History) -> Iterator[tuple[str, Span]]:
    """Who was cut off from whom, and when."""
    tolerance = _AT_ONCE * (history.events[-1].at - history.events[0].at) if len(history) else 0.0
    found: dict[str, list[_Cut]] = {}
    for since, until, who, peer in _links(history):
        _same(found.setdefault(who, []), since, until, tolerance).reaches_not.append(peer)
        _same(found.setdefault(peer, []), since, until, tolerance).reached_not_by.append(who)
    for who, cut in ((who, cut) for who, some in found.items() for cut in some):
        yield who, Span(Look.CUT, cut.since, cut.until, labels=cut.labels())


def _same(some: list[_Cut], since: float, until: float, tolerance: float) -> _Cut:
    """The cut of that time: one that there is, or a new one."""
    for cut in some:
        together = cut.until == until or abs(cut.until - until) <= tolerance
        if together and abs(cut.since - since) <= tolerance:
            return cut
    some.append(_Cut(since, until))
    return some[-1]


def _links(history: History) -> list[tuple[float, float, str, str]]:
    """Every link that was cut: since when, until when, from whom, to whom."""
    open_cuts: dict[tuple[str, str], float] = {}
    found: list[tuple[float, float, str, str]] = []
    for event in history.of(Kind.CUT, Kind.HEALED):
        if event.kind is Kind.CUT and not (event.who and event.peer):
            continue  # between whom, nobody knows
        if event.kind is Kind.CUT:
            open_cuts.setdefault((event.who, event.peer), event.at)
            continue
        found += [(open_cuts.pop(link), event.at, *link) for link in _healed(event, open_cuts)]
    return sorted(found + [(since, inf, *link) for link, since in open_cuts.items()])


def _healed(event: Event, open_cuts: dict[tuple[str, str], float]) -> list[tuple[str, str]]:
    """The links that this event heals: one, or, without a peer, all."""
    return [link for link in open_cuts if not event.peer or link == (event.who, event.peer)]
