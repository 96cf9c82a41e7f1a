"""`holdfast lab model`: every run of a small quorum, or how a wrong variant fails."""

from __future__ import annotations

import time
from itertools import groupby

import click

from holdfast.cli.lab import missing_programs_are_told
from holdfast.lab.model.variants import VARIANTS, Group, Result, run

_UNEXPECTED = 1


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
        results = [_explore(name) for name in _chosen(variant)]
    if not all(result.as_expected for result in results):
        ctx.exit(_UNEXPECTED)


def _chosen(variant: str | None) -> list[str]:
    if variant is None:
        return [name for name, each in VARIANTS.items() if each.group is Group.ALGORITHM]
    if variant not in VARIANTS:
        raise click.UsageError(f"there is no variant {variant!r}: see --list.")
    return [variant]


def _print_list() -> None:
    width = max(map(len, VARIANTS))
    for group, variants in groupby(VARIANTS.values(), key=lambda variant: variant.group):
        click.echo(group)
        for variant in variants:
            click.echo(f"  {variant.name:<{width}}  {variant.what}")


def _explore(name: str) -> Result:
    began = time.monotonic()
    result = run(name)
    took = time.monotonic() - began
    explored = result.explored
    outcome = "holds" if explored.violation is None else "fails"
    unexpected = "" if result.as_expected else "  NOT AS EXPECTED"
    click.echo(f"{name:<19}  {outcome}  {explored.states:>7} states  {took:5.1f} s{unexpected}")
    if explored.violation is not None:
        click.echo(str(explored.violation))
    return result
