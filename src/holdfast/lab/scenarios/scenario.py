"""What a scenario is: a story, its variants, the expected outcome of each, and its check."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.lab.checkers import NOT_GRANTED, judge
from holdfast.lab.history import Event, Finding, History
from holdfast.lab.scenarios.client_process import PLAIN
from holdfast.lab.scenarios.stage import Stage, StageFailed

TOLERANCE = 1.0
"""How late a busy machine may report a loss, in seconds."""

BOUND, SHORT_BOUND = 5.0, 1.0
"""How long a lock may be free and wanted, in seconds, on a busy machine; and in a variant that is
to show that it stays free."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way in which the story is played."""

    name: str
    what: str
    """What is different here, in a sentence."""
    play: Callable[[Stage], None]
    why: str
    """Why it ends as expected."""
    breaks: tuple[str, ...] = ()
    """The labels of the expected findings: none, unless the variant is there to fail."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A classic failure, and the variants of the lock that meet it."""

    name: str
    title: str
    story: str
    """What is tried, in a few sentences."""
    variants: Sequence[Variant]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one variant."""

    scenario: Scenario
    variant: Variant
    history: History
    findings: Sequence[Finding]
    aborted: str = ""
    """Why the story did not come to its end, if it did not."""

    @property
    def broken(self) -> set[str]:
        """The labels of what was found."""
        return {finding.label for finding in self.findings}

    @property
    def as_expected(self) -> bool:
        """Whether exactly what should go wrong went wrong."""
        return not self.aborted and self.broken == set(self.variant.breaks)


def run(scenario: Scenario, variant: Variant, show_event: Callable[[Event], None]) -> Outcome:
    """Play the story once, on real servers and with real clients, and judge what happened.

    `show_event` is called with each event.
    """
    aborted = ""
    with Stage(show_event) as stage:
        try:
            variant.play(stage)
        except StageFailed as error:
            aborted = str(error)
        history = stage.history()
    bound = SHORT_BOUND if NOT_GRANTED in variant.breaks else BOUND
    findings = judge(history, tolerance=TOLERANCE, bound=bound, unchecked=(PLAIN,))
    return Outcome(scenario, variant, history, findings, aborted)
