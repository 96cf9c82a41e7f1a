"""How long before anything happens: the command line's help, and the import."""

import subprocess
import sys
from functools import partial
from pathlib import Path
from time import perf_counter

from benchmarks.measure import Case, Effort, at_most, interleave, rows

MOST_OVER_CLICK = 2.0
BARE_CLICK = """
import click

@click.command()
@click.option("--count", default=1, help="How often.")
@click.argument("name")
def hello(count: int, name: str) -> None:
    '''Greet NAME.'''
    for _ in range(count):
        click.echo(f"Hello, {name}!")

hello()
"""
HOLDFAST = """
import sys
from holdfast.cli import main
sys.exit(main())
"""


def measure(effort: Effort, folder: Path) -> Case:
    click_program, our_program = folder / "bare_click.py", folder / "holdfast"
    click_program.write_text(BARE_CLICK)
    our_program.write_text(HOLDFAST)
    python = sys.executable
    commands = {
        "bare click --help": [python, str(click_program), "--help"],
        "holdfast --help": [python, str(our_program), "--help"],
        "python -c pass": [python, "-c", "pass"],
        "import holdfast": [python, "-c", "import holdfast"],
    }
    values = interleave(
        {label: partial(_seconds, command) for label, command in commands.items()},
        effort.starts,
    )
    return Case(
        "startup",
        "Start-up",
        "A whole process, from its start to its end.",
        "bare click --help",
        rows(values, "ms", 1e3, "bare click --help"),
        (at_most(values, "holdfast --help", "bare click --help", MOST_OVER_CLICK),),
    )


def _seconds(command: list[str]) -> float:
    began = perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - began
