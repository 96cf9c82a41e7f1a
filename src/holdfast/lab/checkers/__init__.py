"""Whether a history keeps the promises of a lock. Each checker gives what it found wrong.

| checker | the promise |
|---|---|
| `unreadable` | none: the history itself makes sense, so that the others can be believed |
| `overlaps` | at any instant at most one lease on a name is valid |
| `disorder` | each grant of a name has a greater fence than every earlier one |
| `stale_writes` | a register that judges fences takes no write that is older than one it took |
| `unnotified` | who loses a lock is told by its deadline |
| `starvation` | once the faults are over, what is wanted and free is granted |
| `left_behind` | nothing is stored for a lock that nobody has |

`corruption` is for the opposite: it shows what happens to a register that judges nothing.
"""

from collections.abc import Collection

from holdfast.lab.checkers.exclusion import overlaps
from holdfast.lab.checkers.fences import disorder
from holdfast.lab.checkers.leftovers import Stored, left_behind
from holdfast.lab.checkers.loss import unnotified
from holdfast.lab.checkers.progress import starvation
from holdfast.lab.checkers.record import unreadable
from holdfast.lab.checkers.registers import corruption, stale_writes
from holdfast.lab.history import Finding, History

__all__ = [
    "Stored",
    "corruption",
    "disorder",
    "judge",
    "left_behind",
    "overlaps",
    "stale_writes",
    "starvation",
    "unnotified",
    "unreadable",
]


def judge(
    history: History,
    *,
    tolerance: float,
    bound: float,
    unfenced: Collection[str] = (),
    stored: Stored | None = None,
    until: float | None = None,
) -> list[Finding]:
    """Everything that is wrong with a run, in the order of time.

    `tolerance` is how late a loss may be told, `bound` how long a lock may stay free while it is
    wanted, in seconds. The registers that are `unfenced` may take what they like. `stored` is what
    the nodes still store at the end. The run was over at `until`; default: with its last event.
    """
    over = history.end if until is None else until
    findings = [
        *unreadable(history),
        *overlaps(history),
        *disorder(history),
        *stale_writes(history, unfenced),
        *unnotified(history, tolerance, over),
        *starvation(history, bound, over),
        *left_behind(history, stored or {}, over),
    ]
    return sorted(findings, key=lambda finding: finding.at)
