"""`holdfast lab simulate`: thousands of runs on virtual time, each with its own faults; and
`holdfast lab model`: every run of a small quorum, or how a wrong variant fails."""

from __future__ import annotations

import secrets
import sys
import time

import click

from holdfast.cli import console
from holdfast.cli.lab import missing_programs_are_told, terminal
from holdfast.lab.history import History
from holdfast.lab.model import explore
from holdfast.lab.model.variants import ALGORITHM, VARIANTS, WRONG
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
@click.option("--random", "at_random", is_flag=True, help="Begin at a random seed, and show it.")
@click.option("--seed", type=int, help="Play this one, and show it.")
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
def simulate(
    seeds: int,
    at_random: bool,
    seed: int | None,
    engine: str,
    nodes: int | None,
    guard: str,
    shared: bool,
) -> None:
    """Play runs with faults on virtual time, and see whether every promise is kept.

    The same seed is the same run. Exit code 0: every promise was kept; 1: one was broken, and the
    smallest part of a run that still breaks it is shown. With --guard off there are more faults
    than the algorithm tolerates, and promises are broken: this shows that they are noticed.
    """
    with missing_programs_are_told():
        setup = Setup(nodes, guard=guard == "on", engine=engine, shared=shared)
        if seed is None:
            first = secrets.randbelow(MOST) if at_random else 0
            click.echo(f"seeds {first} to {first + seeds - 1}")
            tally = campaign(range(first, first + seeds), setup, report=_progress)
            _summarise(tally)
            if not tally.failed:
                return
            seed = tally.failed[0]
        run = play(draw(seed, setup))
        if run.findings:
            run = play(shrink(run.plan, breaks(run.findings[0].label)))
        _show(run)
    if run.findings:
        click.echo(f"\nplay it again: the same options and --seed {seed}")
        click.get_current_context().exit(console.UNEXPECTED)


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
    for fault in plan.faults:
        facts = {name: getattr(fault, name) for name in fault.__slots__ if name != "when"}
        shown = ", ".join(f"{name} {value}" for name, value in facts.items())
        click.echo(f"  {type(fault).__name__}: {shown}; {fault.when}")


@click.command("model")
@click.argument("variant", required=False)
@click.option("--list", "show_list", is_flag=True, help="List the variants.")
@click.pass_context
def model(ctx: click.Context, variant: str | None, show_list: bool) -> None:
    """Explore every run in which two or three clients, readers and writers, ask a few nodes.

    Without VARIANT, the algorithm as it is, which must hold. A wrong VARIANT must fail, with a
    shortest counterexample. Exit code 1: not as expected.
    """
    if show_list:
        _print_list()
        return
    with missing_programs_are_told():
        as_expected = [_explore(name) for name in _chosen(variant)]
    if not all(as_expected):
        ctx.exit(console.UNEXPECTED)


def _chosen(variant: str | None) -> list[str]:
    if variant is None:
        return list(ALGORITHM)
    if variant not in VARIANTS:
        raise click.UsageError(f"there is no variant {variant!r}: see --list.")
    return [variant]


def _print_list() -> None:
    width = max(map(len, VARIANTS))
    for group, variants in (
        ("the algorithm as it is: must hold", ALGORITHM),
        ("wrong on purpose: must be caught", WRONG),
    ):
        click.echo(group)
        for name, variant in variants.items():
            click.echo(f"  {name:<{width}}  {variant.what}")


def _explore(name: str) -> bool:
    """Whether it was caught if it is wrong, and holds if it is not."""
    began = time.monotonic()
    states, violation = explore(VARIANTS[name].model)
    took = time.monotonic() - began
    as_expected = (violation is not None) == (name in WRONG)
    outcome = "holds" if violation is None else "fails"
    unexpected = "" if as_expected else "  NOT AS EXPECTED"
    click.echo(f"{name:<19}  {outcome}  {states:>7} states  {took:5.1f} s{unexpected}")
    if violation is not None:
        click.echo(str(violation))
    return as_expected
