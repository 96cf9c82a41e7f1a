"""`holdfast lab simulate`: thousands of runs on virtual time, each with its own faults."""

from __future__ import annotations

import os
import secrets
import sys

import click

from holdfast.cli import exits
from holdfast.cli.lab import missing_programs_are_told, terminal
from holdfast.cli.options import bad_arguments_are_usage_errors, number_that
from holdfast.lab.history import History
from holdfast.lab.pictures.text import Steps, as_text
from holdfast.lab.simulator import (
    Plan,
    Run,
    Setup,
    Tally,
    breaks,
    campaign,
    draw,
    play,
    shrink,
)

MOST = 10**9
"""Random seeds are below this."""

MOST_EVENTS = 40
"""A longer list of events would bury the picture."""


@click.command("simulate")
@click.option(
    "--seeds",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="How many runs to play.",
)
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--random", "at_random", is_flag=True, help="Begin at a random seed, and show it.")
@click.option("--jobs", type=click.IntRange(1), help="Processes; as many as there are cores.")
@click.option("--seed", type=int, help="Play this one, and show it.")
@click.option("--without", default="", help="With --seed: leave these faults out, as 0,3,4.")
@click.option("--tasks", default="", help="With --seed: only these tasks, as 0,2.")
@click.option(
    "--engine",
    type=click.Choice(["redis", "etcd", "zookeeper", "sql"]),
    default="redis",
    show_default=True,
    help="Whose code to play.",
)
@click.option("--nodes", type=click.IntRange(1, 9), help="How many nodes; else each run differs.")
@click.option("--guard", type=click.Choice(["on", "off"]), default="on", help="The restart guard.")
@click.option(
    "--shared",
    is_flag=True,
    help="Readers and semaphores, too; of Redis, one node, or with --nodes a quorum and readers.",
)
@click.option(
    "--drift",
    type=number_that("from 0 to 100", lambda found: 0 <= found <= 100),
    default=1.0,
    help="How far clocks drift; 1 is as far as is allowed for.",
)
def simulate(
    seeds: int,
    first: int,
    at_random: bool,
    jobs: int | None,
    seed: int | None,
    without: str,
    tasks: str,
    engine: str,
    nodes: int | None,
    guard: str,
    drift: float,
    shared: bool,
) -> None:
    """Play runs with faults on virtual time, and see whether every promise is kept.

    The same seed is the same run. Exit code 0: every promise was kept; 1: one was broken, and the
    smallest run that still breaks it is shown. With --guard off, or --drift above 1, there are more
    faults than the algorithm tolerates, and promises are broken: this shows that they are noticed.
    """
    with bad_arguments_are_usage_errors(), missing_programs_are_told():
        setup = Setup(nodes, guard=guard == "on", drift=drift, engine=engine, shared=shared)
        run = None
        if seed is None:
            first = secrets.randbelow(MOST) if at_random else first
            click.echo(f"seeds {first} to {first + seeds - 1}")
            jobs = jobs or _cores()
            tally = campaign(range(first, first + seeds), setup, jobs=jobs, report=_progress)
            _summarise(tally)
            if tally.failed:
                run = play(draw(tally.failed[0], setup))
        else:
            plan = draw(seed, setup)
            left_out = _numbers("--without", without, len(plan.faults))
            chosen = _numbers("--tasks", tasks, len(plan.tasks)) or range(len(plan.tasks))
            faults = (number for number in range(len(plan.faults)) if number not in left_out)
            run = play(plan.part(faults, chosen))
            _show(run)
    if run is not None and run.findings:
        if seed is None:
            _blame(run, setup)
        click.get_current_context().exit(exits.UNEXPECTED)


def _cores() -> int:
    """How many cores there are for this process; where the system does not tell, in all."""
    cores = getattr(os, "sched_getaffinity", None)
    return len(cores(0)) if cores is not None else os.cpu_count() or 1


def _progress(tally: Tally) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{tally.seeds} seeds, {len(tally.failed)} failed ", nl=False, err=True)


def _summarise(tally: Tally) -> None:
    if sys.stderr.isatty():
        click.echo("\r", nl=False, err=True)
    click.echo(f"{tally.seeds} seeds, {tally.grants} grants, {tally.faults.total()} faults")
    for kind, count in tally.faults.most_common():
        click.echo(f"  {count:7} {kind}")
    for label, count in tally.broken.most_common():
        click.echo(f"in {count} seeds: {label}")
    if tally.failed:
        click.echo(f"seeds that failed: {', '.join(map(str, tally.failed))}")
    if not tally.broken:
        click.echo("every promise was kept")


def _blame(run: Run, setup: Setup) -> None:
    """Show the smallest run that still fails, and how to play it again."""
    part = shrink(run.plan, breaks(run.findings[0].label))
    _show(play(run.plan.part(*part)))
    words = [f"--seed {run.plan.seed}", *_options_of(setup)]
    left_out = [n for n in range(len(run.plan.faults)) if n not in part.faults]
    if left_out:
        words.append(f"--without {','.join(map(str, left_out))}")
    words.append(f"--tasks {','.join(map(str, part.tasks))}")
    click.echo(f"\nplay it again: holdfast lab simulate {' '.join(words)}")


def _options_of(setup: Setup) -> list[str]:
    """The options that make plans what they are."""
    options = []
    usual = Setup()
    if setup.engine != usual.engine:
        options.append(f"--engine {setup.engine}")
    if setup.shared:
        options.append("--shared")
    if setup.nodes is not None:
        options.append(f"--nodes {setup.nodes}")
    if not setup.guard:
        options.append("--guard off")
    if setup.drift != usual.drift:
        options.append(f"--drift {setup.drift:g}")
    return options


def _show(run: Run) -> None:
    _describe(run.plan)
    screen = terminal()
    end = max((finding.until for finding in run.findings), default=run.plan.seconds)
    history = History(event for event in run.history if event.at <= end + 0.1)
    if len(history) <= MOST_EVENTS:
        steps = Steps(screen)
        click.echo("\n".join(["", *(steps.line(event) for event in history), ""]))
    click.echo(
        as_text(history, findings=run.findings, width=screen.width, colour=screen.colour), nl=False
    )


def _describe(plan: Plan) -> None:
    click.echo(f"seed {plan.seed}: {plan.nodes} nodes, {plan.clients} clients")
    for number, fault in enumerate(plan.faults):
        facts = {name: getattr(fault, name) for name in fault.__slots__ if name != "when"}
        shown = ", ".join(f"{name} {value}" for name, value in facts.items())
        click.echo(f"  {number:2} {type(fault).__name__}: {shown}; {fault.when}")


def _numbers(option: str, text: str, count: int) -> list[int]:
    """The numbers in an option's value, of `count` faults or tasks, in their order."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if not (word.isdecimal() and int(word) < count):
            raise ValueError(f"{option}: {word!r} is not a number from 0 to {count - 1}")
    return sorted({int(word) for word in words})
