"""Runs scenarios on real servers, and shows what happened: `holdfast lab list`, `run`, `demo`."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import TypeAlias

import click

from holdfast.cli.lab import missing_programs_are_told, terminal
from holdfast.cli.output import Output
from holdfast.lab.history import Event
from holdfast.lab.pictures import as_svg
from holdfast.lab.pictures.text import Steps
from holdfast.lab.scenarios import report
from holdfast.lab.scenarios.catalogue import DEMO, SCENARIOS
from holdfast.lab.scenarios.scenario import Outcome, Scenario, Variant
from holdfast.lab.scenarios.scenario import run as run_variant
from holdfast.lab.servers.programs import ProgramMissing, need_library

DIFFERS = 1
"""The exit code if a variant did not end as expected."""

ALL = "all"
Chosen: TypeAlias = Sequence[tuple[Scenario, Variant]]


@click.command("list")
def list_() -> None:
    """List the failures that can be run, and their variants."""
    _show(report.listing(SCENARIOS.values(), terminal()))


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
        need_library("redis", "pip install 'holdfast[lab]'")
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


COMMANDS: dict[str, click.Command] = {"list": list_, "run": run, "demo": demo}


def _conclude(outcomes: Iterable[Outcome]) -> None:
    if not all(outcome.as_expected for outcome in outcomes):
        raise click.exceptions.Exit(DIFFERS)


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
            _show(report.introduction(scenario, screen))
        before = scenario
        _show(report.heading(variant, screen))
        steps = Steps(screen)

        def show_event(event: Event, steps: Steps = steps) -> None:
            click.echo(steps.line(event))

        outcome = _attempt((scenario, variant), chosen, show_event)
        if outcome is not None:
            outcomes.append(outcome)
            _show(report.conclusion(outcome, screen))
    if len(chosen) > 1:
        _show(report.summary(outcomes, screen, len(chosen) - len(outcomes)))
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
