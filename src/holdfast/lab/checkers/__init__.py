"""Whether a history keeps the promises of a lock. Each checker gives what it found wrong.

| checker | the promise |
|---|---|
| `overlaps` | at any instant at most one lease on a name is valid |
| `disorder` | each grant of a name has a greater fence than every earlier one |
| `unnotified` | a holder learns of a loss by its deadline |
| `starvation` | once the faults are over, what is wanted and free is granted |

`corruption` is for the opposite: it shows what happens to a register that checks no fences.
"""

from holdfast.lab.checkers.liveness import starvation, unnotified
from holdfast.lab.checkers.safety import corruption, disorder, overlaps
from holdfast.lab.history import Finding, History

__all__ = ["corruption", "disorder", "judge", "overlaps", "starvation", "unnotified"]


def judge(
    history: History, *, tolerance: float, bound: float, until: float | None = None
) -> list[Finding]:
    """Everything that is wrong with a run, in the order of time.

    `tolerance` is how late a loss may be noticed, `bound` how long a lock may stay free while it is
    wanted, in seconds. The run was over at `until`; default: with its last event.
    """
    over = history.end if until is None else until
    findings = [
        *overlaps(history),
        *disorder(history),
        *unnotified(history, tolerance, over),
        *starvation(history, bound, over),
    ]
    return sorted(findings, key=lambda finding: finding.at)
