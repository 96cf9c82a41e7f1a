"""What a scenario is: a story, told once for each variant, and what should come of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.lab.history import Event, Finding, History
from holdfast.lab.scenarios.actors import StageFailed
from holdfast.lab.scenarios.judges import BOUND, judge
from holdfast.lab.scenarios.stage import Stage


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
