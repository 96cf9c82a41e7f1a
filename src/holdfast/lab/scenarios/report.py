"""What people read while a scenario runs, and after it. Pure: what happened in, lines out."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from holdfast.lab.history import Event, Kind
from holdfast.lab.pictures import as_text
from holdfast.lab.pictures.sentences import describe
from holdfast.lab.pictures.text import painted
from holdfast.lab.scenarios.scenario import Outcome, Scenario, Variant

KEPT = "every promise is kept"


@dataclass(frozen=True, slots=True)
class Terminal:
    """How wide the lines are, and whether there are colours."""

    width: int
    colour: bool

    def styled(self, text: str, style: str) -> str:
        """The text in a style of the pictures, if there are colours."""
        return painted([(text, style)], colour=self.colour)

    def filled(self, text: str, first: str = "  ", rest: str = "  ") -> str:
        """The text in lines of this width."""
        return textwrap.fill(
            text, self.width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
        )


def listing(scenarios: Iterable[Scenario], terminal: Terminal) -> Iterator[str]:
    """What there is to run."""
    for scenario in scenarios:
        yield f"{terminal.styled(scenario.name, 'bold')}: {scenario.title}"
        margin = 4 + max(len(variant.name) for variant in scenario.variants)
        for variant in scenario.variants:
            yield terminal.filled(variant.what, f"  {variant.name:{margin - 2}}", " " * margin)
            expected = f"expected: {in_words(variant.breaks)}"
            yield terminal.styled(terminal.filled(expected, " " * margin, " " * margin), "dim")
        yield ""


def introduction(scenario: Scenario, terminal: Terminal) -> Iterator[str]:
    """What will be tried."""
    yield ""
    yield terminal.styled(f"{scenario.name}: {scenario.title}", "bold")
    yield ""
    yield terminal.filled(scenario.story)


def heading(variant: Variant, terminal: Terminal) -> Iterator[str]:
    """Which variant comes now."""
    yield ""
    yield terminal.filled(variant.what, f"{terminal.styled(variant.name, 'bold')}: ", "  ")
    yield ""


class Steps:
    """What happens in one run, a line for each event."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._fences: dict[int, str] = {}
        self._accepted: dict[str, int] = {}
        """By register, the last fence that it accepted."""
        self._valid_until: dict[str, float] = {}

    def line(self, event: Event) -> str:
        """What has just happened; in red, if a client did it without a valid lease."""
        if event.fence is not None and event.fence > max(self._fences, default=-1):
            self._fences[event.fence] = f"#{len(self._fences) + 1}"
        if event.kind in (Kind.GRANTED, Kind.EXTENDED):
            self._valid_until[event.hold] = event.until
        when, what = f"{event.at:7.2f} s  ", describe(event, _instant, self._labels(event))
        is_write = event.kind in (Kind.WROTE, Kind.REJECTED)
        stray = is_write and event.at > self._valid_until.get(event.hold, inf)
        if stray:
            what += " (its lease has expired)"
        line = self._terminal.filled(what, when, " " * len(when))
        return self._terminal.styled(line, "red") if stray else line

    def _labels(self, event: Event) -> Mapping[int, str]:
        """The labels of fences; of one that is rejected, beside the greater one: #1 < #2."""
        if event.fence is None:
            return self._fences
        if event.kind is Kind.WROTE:
            self._accepted[event.name] = event.fence
        accepted = self._accepted.get(event.name)
        if event.kind is not Kind.REJECTED or accepted is None:
            return self._fences
        own, greater = (self._fences.get(each, str(each)) for each in (event.fence, accepted))
        return {event.fence: f"{own} < {greater}"}


def conclusion(outcome: Outcome, terminal: Terminal) -> Iterator[str]:
    """The picture; what was expected, what was seen, and why."""
    yield ""
    picture = as_text(
        outcome.history,
        findings=outcome.findings,
        width=terminal.width,
        colour=terminal.colour,
        in_words=False,  # as it happened, already
    )
    yield picture.rstrip("\n")
    yield ""
    yield from _paragraph("expected", in_words(outcome.variant.breaks), terminal)
    yield from _paragraph("seen", _seen(outcome), terminal)
    if outcome.as_expected:
        yield from _paragraph("why", outcome.variant.why, terminal)
        yield "  " + terminal.styled("as expected", "green")
    else:
        yield "  " + terminal.styled("NOT AS EXPECTED", "red")


def summary(outcomes: Sequence[Outcome], terminal: Terminal, left_out: int = 0) -> Iterator[str]:
    """How many came out as expected, and which did not."""
    bad = [outcome for outcome in outcomes if not outcome.as_expected]
    text = f"{len(outcomes) - len(bad)} of {len(outcomes)} as expected"
    if left_out:
        text += f", {left_out} left out because a program is missing"
    yield ""
    yield terminal.styled(text, "red" if bad else "green")
    for outcome in bad:
        yield f"  not {outcome.scenario.name}, {outcome.variant.name}: {_seen(outcome)}"


def in_words(labels: Iterable[str]) -> str:
    """What goes wrong, or that nothing does."""
    return "; ".join(sorted(labels)) or KEPT


def _seen(outcome: Outcome) -> str:
    if outcome.aborted:
        return f"the story was aborted: {outcome.aborted}"
    return "the same" if outcome.as_expected else in_words(outcome.broken)


def _paragraph(label: str, text: str, terminal: Terminal) -> Iterator[str]:
    yield terminal.filled(text, f"  {label:10}", " " * 12)


def _instant(at: float) -> str:
    return f"{at:.2f} s"
