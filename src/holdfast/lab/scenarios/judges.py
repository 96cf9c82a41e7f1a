"""What scenarios are judged by: the checkers, told what these stages are like."""

from holdfast.lab import checkers
from holdfast.lab.checkers import exclusion, fences, progress, registers
from holdfast.lab.history import Finding, History
from holdfast.lab.scenarios.register import PLAIN

EXCLUSION = exclusion.RULE
FENCE_ORDER = fences.RULE
PLAIN_REGISTER = registers.CORRUPT
AVAILABLE = progress.RULE

TOLERANCE = 1.0
"""How late a busy machine may tell of a loss, in seconds."""

BOUND = 1.0
"""How long a lock may be free and wanted, in seconds, where nothing is left to chance."""


def judge(history: History, bound: float) -> list[Finding]:
    """Every promise that was not kept, and every write that spoilt the plain register."""
    kept = checkers.judge(history, tolerance=TOLERANCE, bound=bound, unfenced=[PLAIN])
    return sorted([*kept, *checkers.corruption(history, [PLAIN])], key=lambda found: found.at)


IN_WORDS = {
    EXCLUSION: "two hold the lock at once",
    PLAIN_REGISTER: "the plain register takes a write that comes too late",
    AVAILABLE: "nobody gets a lock that is free",
}
"""What it means that one of these rules is broken."""
