"""`holdfast watch`: a live view of the locks, in the terminal."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from holdfast.cli import exits
from holdfast.cli.options import (
    audit_log_option,
    bad_arguments_are_usage_errors,
    complete_name,
    open_audit,
    open_client,
    positive_seconds,
    url_option,
)
from holdfast.cli.output import Output


@click.command("watch")
@click.argument("prefix", default="", shell_complete=complete_name)
@click.option(
    "--every",
    type=positive_seconds,
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to look.",
)
@audit_log_option
@url_option
def watch(prefix: str, every: float, audit_log: Path | None, url: str | None) -> None:
    """Watch the locks that are held: all, or those whose names begin with PREFIX.

    Holders, time left, waiters and contention, live; with keys to filter, to sort, to look at one
    lock, to break it, and to examine the servers.
    """
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise click.UsageError("watch needs a terminal. For programs: holdfast ls --json")
    audit, output = open_audit(audit_log), Output(quiet=True)
    from holdfast.cli.watch.app import View  # not above: Textual takes a quarter of a second

    with open_client(url, output) as client:
        with bad_arguments_are_usage_errors():
            client.leases(prefix)  # asks nothing yet
        view = View(client, prefix, every, audit)
        view.run()
        view.finish_breaks()
        for line in view.broken:
            output.error(line)
        # It holds nothing, and closing would wait for an engine that may be frozen.
        exits.leave_at_once(view.return_code or 0)
