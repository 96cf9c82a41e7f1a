"""The record itself: events that contradict each other prove nothing about a lock."""

from collections.abc import Iterator

from holdfast.lab.history import OF_A_HOLD, Event, Finding, History, Kind
from holdfast.lab.hold import seconds

RULE = "a history that makes sense"

ONLY_IF_GRANTED = (Kind.EXTENDED, Kind.LOST)


def unreadable(history: History) -> list[Finding]:
    """Events that belong to no hold, or cannot be told of the one they belong to."""
    heard: dict[str, list[Event]] = {}
    findings: list[Finding] = []
    for event in history:
        if event.kind in OF_A_HOLD:
            before = heard.setdefault(event.hold, [])
            findings += (_finding(event, why) for why in _contradictions(event, before))
            before.append(event)
    return findings


def _contradictions(event: Event, before: list[Event]) -> Iterator[str]:
    """What an event says that those before, of the same hold, do not allow."""
    if not event.hold:
        yield "and it is not said of which hold"
        return
    if before and (event.who, event.name) != (before[0].who, before[0].name):
        yield f"of {event.hold}, which is {before[0].who}'s hold of {before[0].name}"
    grants = [each for each in before if each.kind is Kind.GRANTED]
    if event.kind in ONLY_IF_GRANTED and not grants:
        yield f"of {event.hold}, which was never granted"
    if event.kind is Kind.GRANTED and grants and grants[0].fence != event.fence:
        yield f"of {event.hold} with fence {event.fence}, which it has with fence {grants[0].fence}"


def _finding(event: Event, why: str) -> Finding:
    text = f"{event.who} {event.kind} {event.name} at {seconds(event.at)}, {why}"
    return Finding(RULE, text, event.at, event.at, (event.who,))
