"""Whether a history keeps the promises of a lock. Each checker gives what it found wrong.

| checker | the promise |
|---|---|
| `contradictions` | none: the history does not contradict itself |
| `overlaps` | at any instant at most one lease on a name is valid |
| `disorder` | each grant of a name has a greater fence than every earlier one |
| `stale_writes` | a register that checks fences accepts no smaller fence than one before |
| `unnotified` | a holder learns of a loss by its deadline |
| `starvation` | once the faults are over, what is wanted and free is granted |

`corruption` is for the opposite: it shows what happens to a register that checks no fences.
"""

from collections.abc import Collection, Iterator

from holdfast.lab.checkers.liveness import starvation, unnotified
from holdfast.lab.checkers.safety import corruption, disorder, overlaps, stale_writes
from holdfast.lab.history import HOLD_KINDS, Event, Finding, History, Kind, seconds

__all__ = [
    "contradictions",
    "corruption",
    "disorder",
    "judge",
    "overlaps",
    "stale_writes",
    "starvation",
    "unnotified",
]


def judge(
    history: History,
    *,
    tolerance: float,
    bound: float,
    unfenced: Collection[str] = (),
    until: float | None = None,
) -> list[Finding]:
    """Everything that is wrong with a run, in the order of time.

    `tolerance` is how late a loss may be noticed, `bound` how long a lock may stay free while it is
    wanted, in seconds. The registers that are `unfenced` may accept any write. The run was over at
    `until`; default: with its last event.
    """
    over = history.end if until is None else until
    findings = [
        *contradictions(history),
        *overlaps(history),
        *disorder(history),
        *stale_writes(history, unfenced),
        *unnotified(history, tolerance, over),
        *starvation(history, bound, over),
    ]
    return sorted(findings, key=lambda finding: finding.at)


CONTRADICTORY = "contradictory history"

ONLY_IF_GRANTED = (Kind.EXTENDED, Kind.LOST)


def contradictions(history: History) -> list[Finding]:
    """Events that belong to no hold, or contradict others of their hold."""
    seen: dict[str, list[Event]] = {}
    findings: list[Finding] = []
    for event in history:
        if event.kind in HOLD_KINDS:
            before = seen.setdefault(event.hold, [])
            findings += (_contradictory(event, why) for why in _conflicts(event, before))
            before.append(event)
    return findings


def _conflicts(event: Event, before: list[Event]) -> Iterator[str]:
    """What in an event contradicts those before, of the same hold."""
    if not event.hold:
        yield "without a hold"
        return
    if before and (event.who, event.name) != (before[0].who, before[0].name):
        yield f"of {event.hold}, which is {before[0].who}'s hold of {before[0].name}"
    grants = [each for each in before if each.kind is Kind.GRANTED]
    if event.kind in ONLY_IF_GRANTED and not grants:
        yield f"of {event.hold}, which was never granted"
    if event.kind is Kind.GRANTED and grants and grants[0].fence != event.fence:
        yield f"of {event.hold} with fence {event.fence}, which it has with fence {grants[0].fence}"


def _contradictory(event: Event, why: str) -> Finding:
    text = f"{event.who} {event.kind} {event.name} at {seconds(event.at)}, {why}"
    return Finding(CONTRADICTORY, text, event.at, event.at, (event.who,))
