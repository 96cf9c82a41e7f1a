"""What a scenario is: a story, told for each variant, what should come of it, and its judge."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.lab import checkers
from holdfast.lab.checkers import exclusion, fences, progress, registers
from holdfast.lab.history import Event, Finding, History
from holdfast.lab.scenarios.actors import StageFailed
from holdfast.lab.scenarios.register import PLAIN
from holdfast.lab.scenarios.stage import Stage

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


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to tell the story."""

    name: str
    what: str
    """What is different here, in a sentence."""
    play: Callable[[Stage], None]
    why: str
    """Why it ends as expected."""
    breaks: frozenset[str] = frozenset()
    """The rules that are expected to be broken: none, unless it is there to be seen to fail."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A classic failure, and the variants of the lock that meet it."""

    name: str
    title: str
    story: str
    """What is tried, in a few sentences."""
    variants: Sequence[Variant]
    bound: float = BOUND
    """How long the lock may be free and wanted, in seconds, once the stage is calm."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one variant."""

    scenario: Scenario
    variant: Variant
    history: History
    findings: Sequence[Finding]
    broken_off: str = ""
    """Why the story did not come to its end, if it did not."""

    @property
    def broken(self) -> frozenset[str]:
        """The rules that were broken."""
        return frozenset(finding.rule for finding in self.findings)

    @property
    def as_expected(self) -> bool:
        """Whether exactly those rules were broken that should be."""
        return not self.broken_off and self.broken == self.variant.breaks


def run(scenario: Scenario, variant: Variant, tell: Callable[[Event], None]) -> Outcome:
    """Tell the story once, on real servers and with real clients, and judge what happened."""
    broken_off = ""
    with Stage(tell) as stage:
        try:
            variant.play(stage)
        except StageFailed as error:
            broken_off = str(error)
        history = stage.history()
    return Outcome(scenario, variant, history, judge(history, scenario.bound), broken_off)
