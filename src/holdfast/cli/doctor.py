"""`holdfast doctor`: examine the servers, and say what the guarantees are worth here."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

import holdfast
from holdfast.cli import exits
from holdfast.cli.options import bad_arguments_are_usage_errors, json_option, open_client
from holdfast.cli.output import printable

_COLOURS = {"critical": "red", "warning": "yellow", "note": "cyan"}


@click.command("doctor")
@click.argument("url", required=False)
@click.option("--fix-hints", is_flag=True, help="Print only what is to be done about it.")
@json_option
def doctor(url: str | None, fix_hints: bool, as_json: bool) -> None:
    """Examine the servers of URL, and try locks on them. Default: $HOLDFAST_URL, else an SQLite
    file in your state folder.

    Exit code 0: nothing but notes; 1: warnings; 2: locks do not work, or do not exclude each other.
    """
    with open_client(url) as client, bad_arguments_are_usage_errors():
        findings = client.diagnose()
    if as_json:
        dicts = [asdict(finding) for finding in findings]
        about = {"engine": client.guarantees.engine, "broken_by": client.guarantees.broken_by}
        click.echo(json.dumps({"url": client.url, **about, "findings": dicts}, indent=2))
    elif fix_hints:
        for finding in findings:
            if finding.mend:
                click.echo(printable(f"{finding.where}: {finding.mend}"))
    else:
        _print(client.url, client.guarantees, findings)
    found = {finding.severity for finding in findings}
    if "critical" in found:
        click.get_current_context().exit(exits.CRITICAL)
    if "warning" in found:
        click.get_current_context().exit(exits.WARNINGS)


def _print(url: str, guarantees: holdfast.Guarantees, findings: list[holdfast.Finding]) -> None:
    click.secho(printable(url), bold=True)
    click.echo(f"{guarantees.engine}: one holder {guarantees.exclusion}")
    for finding in findings:
        severity = click.style(f"{finding.severity:<8}", fg=_COLOURS[finding.severity])
        click.echo(f"\n{severity}  {printable(f'{finding.where}: {finding.what}')}")
        if finding.why:
            click.echo(f"          {printable(finding.why)}")
        if finding.mend:
            click.echo(f"          -> {printable(finding.mend)}")
    counts = dict.fromkeys(_COLOURS, 0)
    for finding in findings:
        counts[finding.severity] += 1
    critical, warnings, notes = counts.values()
    click.echo(f"\ncritical: {critical}, warnings: {warnings}, notes: {notes}")
    click.echo("What can break the promise all the same:")
    for reason in guarantees.broken_by:
        click.echo(f"- {reason}")
