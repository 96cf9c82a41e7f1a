"""`holdfast lab list`, `run` and `demo`. What they do is imported on use, so that help is quick."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.options import json_option


@click.command("list")
def list_() -> None:
    """List the failures that can be run, and their variants."""
    from holdfast.cli.lab import scenarios

    scenarios.show_list()


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
@json_option
def run(scenario: str, variant: str | None, svg: Path | None, as_json: bool) -> None:
    """Run a scenario, by its name or `all`, and show what happened and why.

    Starts Redis servers and clients on this machine, stops, kills and disconnects them, and removes
    everything afterwards. The expected outcome is shown with the result: some variants must fail.

    Exit code 0: all variants ended as expected; 1: one did not; 69: a program or library is
    missing. `all` skips such a scenario, and says so.
    """
    from holdfast.cli.lab import scenarios

    scenarios.run(scenario, variant, svg, as_json=as_json)


@click.command()
def demo() -> None:
    """Processes compete for one lock, and one of them is killed. Takes about 10 seconds.

    It needs no server. Exit code 1: two held the lock at once, or it was not granted in time.
    """
    from holdfast.cli.lab import scenarios

    scenarios.run_demo()


COMMANDS: dict[str, click.Command] = {"list": list_, "run": run, "demo": demo}
