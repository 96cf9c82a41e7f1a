"""What the history of a run must show, whatever went wrong in it."""

from collections.abc import Iterator
from itertools import pairwise

from holdfast.lab.history import Finding, History, Hold, Kind


def judge(history: History) -> list[Finding]:
    """Every promise that was not kept."""
    found: list[Finding] = []
    by_name: dict[str, list[Hold]] = {}
    for hold in history.holds():
        if hold.granted is not None:
            by_name.setdefault(hold.name, []).append(hold)
    for holds in by_name.values():
        holds.sort(key=lambda hold: hold.granted or 0.0)
        found += _overlaps(holds)
        found += _fences(holds)
    found += _stale_writes(history)
    return found


def _overlaps(holds: list[Hold]) -> Iterator[Finding]:
    """One holder at a time."""
    last = holds[0]
    for hold in holds[1:]:
        if hold.window[0] < last.window[1] and hold.window[0] < hold.window[1]:
            end = min(last.window[1], hold.window[1])
            text = f"{last.hold} and {hold.hold} held {hold.name} for {end - hold.window[0]:.4f} s"
            who = (last.who, hold.who)
            yield Finding("one holder at a time", text, hold.window[0], end, who)
        if hold.window[1] > last.window[1]:
            last = hold


def _fences(holds: list[Hold]) -> Iterator[Finding]:
    """Each grant has a greater fence than the one before."""
    for earlier, later in pairwise(holds):
        if (earlier.fence or 0) >= (later.fence or 0):
            text = f"{earlier.hold} had {earlier.fence}, and {later.hold} after it {later.fence}"
            at = later.window[0]
            yield Finding("fences grow", text, at, at, (earlier.who, later.who))


def _stale_writes(history: History) -> Iterator[Finding]:
    """A register that looks at fences takes no write of an earlier holder after a later one's."""
    granted = {event.hold: event.at for event in history.of(Kind.GRANTED)}
    latest: dict[str, float] = {}
    for event in history.of(Kind.WROTE):
        if event.name.endswith("/fenced"):
            if granted[event.hold] < latest.get(event.name, 0.0):
                text = f"{event.name} took a write of {event.hold} after a later holder's"
                yield Finding("no stale write", text, event.at, event.at, (event.who,))
            latest[event.name] = max(latest.get(event.name, 0.0), granted[event.hold])
