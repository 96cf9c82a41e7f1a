"""`holdfast lab demo`: the main job, on the embedded engine. It needs no extra."""

from __future__ import annotations

import click


@click.command()
def demo() -> None:
    """Processes compete for one lock, and one of them is killed. Takes about 12 seconds.

    Exit code 1: two held it at once.
    """
    from holdfast.lab.demo.__main__ import main  # here, so that help is quick

    click.get_current_context().exit(main())


COMMANDS = {"demo": demo}
