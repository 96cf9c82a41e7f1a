"""What people read before a scenario runs, and after it. Pure: what happened in, lines out."""

from collections.abc import Iterable, Iterator, Sequence

from holdfast.lab.pictures.text import Terminal, as_text
from holdfast.lab.scenarios.scenario import Outcome, Scenario, Variant

KEPT = "every promise is kept"


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


def conclusion(outcome: Outcome, terminal: Terminal) -> Iterator[str]:
    """The picture; what was expected, what was seen, and why."""
    yield ""
    picture = as_text(
        outcome.history,
        findings=outcome.findings,
        width=terminal.width,
        colour=terminal.colour,
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
