"""`holdfast lab model`: every run of a small quorum, or how a wrong variant fails."""

from __future__ import annotations

import time

import click

from holdfast.cli import exits
from holdfast.cli.lab import missing_programs_are_told
from holdfast.lab.model.search import explore
from holdfast.lab.model.variants import ALGORITHM, VARIANTS, WRONG


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
        ctx.exit(exits.UNEXPECTED)


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
