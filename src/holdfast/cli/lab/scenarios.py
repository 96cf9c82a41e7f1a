"""Runs scenarios on real servers, and shows what happened: `holdfast lab list`, `run`, `demo`."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TypeAlias

import click

from holdfast.cli import console
from holdfast.cli.console import Output
from holdfast.cli.lab import missing_programs_are_told, terminal
from holdfast.lab.history import Event
from holdfast.lab.pictures import as_svg
from holdfast.lab.pictures.text import Steps, Terminal, as_text
from holdfast.lab.scenarios.catalogue import DEMO, SCENARIOS
from holdfast.lab.scenarios.scenario import Outcome, Scenario, Variant
from holdfast.lab.scenarios.scenario import run as run_variant
from holdfast.lab.servers.process import ProgramMissing

ALL = "all"
Chosen: TypeAlias = Sequence[tuple[Scenario, Variant]]


@click.command("list")
def list_() -> None:
    """List the failures that can be run, and their variants."""
    _show(listing(SCENARIOS.values(), terminal()))


@click.command()
@click.argument("scenario")
@click.option("--variant", metavar="NAME", help="Run this one only; `holdfast lab list` has them.")
@click.option(
    "--svg",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Draw it into this file. Several variants get a file each, with their names added: "
    "FILE-pause-writes-on.svg.",
)
def run(scenario: str, variant: str | None, svg: Path | None) -> None:
    """Run a scenario, by its name or `all`, and show what happened and why.

    Starts Redis servers and clients on this machine, stops, kills and disconnects them, and removes
    everything afterwards. The expected outcome is shown with the result: some variants must fail.

    Exit code 0: all variants ended as expected; 1: one did not; 69: a program or library is
    missing. `all` skips such a scenario, and says so.
    """
    chosen = _choose(scenario, variant)
    signal.signal(signal.SIGTERM, _leave)
    with missing_programs_are_told():
        import_module("redis")  # without it, each client would fail by itself
        outcomes = _run_and_show(chosen)
    if svg is not None:
        _draw(outcomes, svg)
    _conclude(outcomes)


@click.command()
def demo() -> None:
    """Processes compete for one lock, and one of them is killed. Takes about 10 seconds.

    It needs no server. Exit code 1: two held the lock at once, or it was not granted in time.
    """
    signal.signal(signal.SIGTERM, _leave)
    _conclude(_run_and_show([(DEMO, DEMO.variants[0])]))


def _conclude(outcomes: Iterable[Outcome]) -> None:
    if not all(outcome.as_expected for outcome in outcomes):
        raise click.exceptions.Exit(console.UNEXPECTED)


def _choose(name: str, variant: str | None) -> list[tuple[Scenario, Variant]]:
    """What to run."""
    if name != ALL and name not in SCENARIOS:
        names = ", ".join(SCENARIOS)
        raise click.UsageError(f"There is no scenario {name!r}. There are: {names}; or {ALL}.")
    scenarios = SCENARIOS.values() if name == ALL else [SCENARIOS[name]]
    there = [(each, one) for each in scenarios for one in each.variants]
    chosen = [(each, one) for each, one in there if variant in (None, one.name)]
    if not chosen:
        names = ", ".join(one.name for _, one in there)
        raise click.UsageError(f"{name} has no variant {variant!r}. There are: {names}.")
    return chosen


def _run_and_show(chosen: Chosen) -> list[Outcome]:
    screen = terminal()
    outcomes: list[Outcome] = []
    before: Scenario | None = None
    for scenario, variant in chosen:
        if scenario is not before:
            _show(introduction(scenario, screen))
        before = scenario
        _show(heading(variant, screen))
        steps = Steps(screen)

        def show_event(event: Event, steps: Steps = steps) -> None:
            click.echo(steps.line(event))

        outcome = _attempt((scenario, variant), chosen, show_event)
        if outcome is not None:
            outcomes.append(outcome)
            _show(conclusion(outcome, screen))
    if len(chosen) > 1:
        _show(summary(outcomes, screen, len(chosen) - len(outcomes)))
    return outcomes


def _attempt(
    each: tuple[Scenario, Variant], chosen: Chosen, show_event: Callable[[Event], None]
) -> Outcome | None:
    """What came of it; None if a program for it is missing, and others can do without."""
    scenario, variant = each
    try:
        return run_variant(scenario, variant, show_event)
    except ProgramMissing as missing:
        if all(other is scenario for other, _ in chosen):
            raise
        Output().error(f"{scenario.name} ({variant.name}) is skipped: {missing}")
        return None


def _draw(outcomes: Sequence[Outcome], file: Path) -> None:
    """Draw each into a file of its own."""
    for outcome in outcomes:
        scenario, variant = outcome.scenario, outcome.variant
        target = file
        if len(outcomes) > 1:
            target = file.with_stem(f"{file.stem}-{scenario.name}-{variant.name}")
        title = f"{scenario.title} ({variant.name})"
        picture = as_svg(
            outcome.history, title=title, findings=outcome.findings, caption=variant.why
        )
        target.write_text(picture)


def _show(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)


def _leave(signum: int, frame: FrameType | None) -> None:
    raise click.exceptions.Exit(-signum)


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
