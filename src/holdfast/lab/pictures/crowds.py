"""Too many things for the room there is become one thing, with a number."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from holdfast.lab.pictures.lanes import Look, Mark, Span, Symbol

Place = Callable[[float], float]
"""Where an instant is on the sheet."""


def merge_marks(marks: list[Mark], place: Place, reach: float) -> list[Mark]:
    """Marks in the order of time; each crowd of one sort, `reach` wide, is one mark with a number.

    Two or three are no crowd.
    """
    crowds: dict[Symbol, list[list[Mark]]] = {}
    for mark in sorted(marks, key=lambda mark: mark.at):
        some = crowds.setdefault(mark.symbol, [])
        if some and place(mark.at) - place(some[-1][0].at) < reach:
            some[-1].append(mark)
        else:
            some.append([mark])
    merged = (mark for some in crowds.values() for crowd in some for mark in _merged(crowd))
    return sorted(merged, key=lambda mark: mark.at)


def _merged(crowd: list[Mark]) -> list[Mark]:
    if len(crowd) < 4:
        return crowd
    first, count = crowd[0], len(crowd)
    labels = (f"{first.symbol.value}, {count} times", f"{count} times")
    one_client = len({mark.tint for mark in crowd}) == 1
    if one_client:
        return [replace(first, labels=labels)]
    return [Mark(first.symbol, first.at, labels)]


def merge_spans(spans: list[Span], place: Place, grain: float) -> Iterator[list[Span]]:
    """Spans by group, in the order of time; neighbours too small to see become one span."""
    crowd: list[list[Span]] = []
    for group in _groups(spans):
        left, right = place(group[0].since), place(max(span.until for span in group))
        if right - left >= 2 * grain:
            yield from _one(crowd)
            crowd = []
            yield group
            continue
        if crowd and left - place(crowd[-1][-1].until) > grain:
            yield from _one(crowd)
            crowd = []
        crowd.append(group)
    yield from _one(crowd)


def _groups(spans: list[Span]) -> list[list[Span]]:
    """Spans that belong together."""
    groups: dict[object, list[Span]] = {}
    for number, span in enumerate(spans):
        groups.setdefault(span.group or number, []).append(span)
    return sorted(groups.values(), key=lambda group: group[0].since)


def _one(crowd: list[list[Span]]) -> Iterator[list[Span]]:
    """The crowd as one span, if it is one."""
    if len(crowd) < 2:
        yield from crowd
        return
    spans = [span for group in crowd for span in group]
    # What was held counts; those who only waited are told if nobody held.
    held = [span for span in spans if span.look is not Look.WAITING] or spans
    since, until = spans[0].since, max(span.until for span in spans)
    labels = (f"{len(held)} times",)
    yield [replace(held[0], since=since, until=until, labels=labels, notches=())]
