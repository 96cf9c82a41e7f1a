"""`holdfast ls`, `show`, `break`, `ddl` and `doctor`: list the held locks, show one, break one;
print the DDL of the tables, for migrations; examine the servers, and say what the guarantees are
worth here."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from math import inf
from pathlib import Path

import click

import holdfast
from holdfast.cli import console
from holdfast.cli.console import duration, time_left
from holdfast.cli.options import (
    audit_log_option,
    bad_arguments_are_usage_errors,
    complete_name,
    describe_holder,
    describe_holders,
    json_option,
    label_as_dict,
    open_audit,
    open_client,
    url_option,
)
from holdfast.monitor import kind_of
from holdfast.options import printable


@click.command("ls")
@click.argument("prefix", default="", shell_complete=complete_name)
@json_option
@url_option
def list_locks(prefix: str, as_json: bool, url: str | None) -> None:
    """List the locks that are held: all, or those whose names begin with PREFIX."""
    with open_client(url) as client, bad_arguments_are_usage_errors():
        leases = sorted(client.leases(prefix), key=lambda info: info.name)
    if as_json:
        _print_json([_as_dict(info) for info in leases])
    elif sys.stdout.isatty():
        click.secho(f"{client.url}{'' if leases else ': no lock is held'}", dim=True)
    if leases and not as_json:
        _print_table(leases)


@click.command("show")
@click.argument("name", shell_complete=complete_name)
@json_option
@url_option
def show_lock(name: str, as_json: bool, url: str | None) -> None:
    """Show who holds the lock NAME. Exit code 1: it is free."""
    with open_client(url) as client, bad_arguments_are_usage_errors():
        info = client.inspect(name)
    if as_json:
        _print_json(_as_dict(info) if info else None)
    elif info:
        if sys.stdout.isatty():
            click.secho(client.url, dim=True)
        for fact, value in facts_of(info):
            click.echo(f"{click.style(f'{fact:<7}', fg='cyan')}  {value}")
    else:
        click.echo(f"{printable(name)} is free")
    if info is None:
        click.get_current_context().exit(console.FREE)


@click.command("break")
@click.argument("name", shell_complete=complete_name)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--fence", type=int, metavar="N", help="Only if it is held with this fence.")
@click.option(
    "--holder",
    default="",
    metavar="ID",
    help="Take it from this holder alone, if several share it: an id as `show` prints it.",
)
@click.option("--reason", default="", metavar="TEXT", help="For the record.")
@audit_log_option
@json_option
@url_option
def break_lock(
    name: str,
    yes: bool,
    fence: int | None,
    holder: str,
    reason: str,
    audit_log: Path | None,
    as_json: bool,
    url: str | None,
) -> None:
    """Take the lock NAME away from its holder, or from all its holders. They are not stopped.

    Until its next renewal fails, the old holder may be at work together with the next one; only
    fences keep their writes in order. Exit code 1: the lock was free, changed hands, or you
    answered no; nothing was changed.
    """
    from holdfast.breaking import break_held, operator, refusal  # not above: help must be quick

    if not yes and not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on: give --yes to break the lock.")
    if audit_log and not reason.strip():
        raise click.UsageError("an audit log needs a reason: give --reason.")
    audit = open_audit(audit_log)
    with open_client(url) as client, bad_arguments_are_usage_errors():
        seen = None if yes else client.inspect(name)
        all_seen = [member.holder for member in seen.members] if seen else []
        holders = [holder] if holder else all_seen
        only_fence = "" if fence is None else str(fence)
        if not yes and (why := refusal(seen, only_fence, holders)):
            broken, outcome = False, why
        elif seen and not _confirmed(seen, holder):
            broken, outcome = False, "left alone"
        else:
            broken, outcome = break_held(
                client,
                name,
                fence=only_fence,
                holders=holders,
                audit=audit,
                who=operator(),
                reason=reason,
            )
    if as_json:
        _print_json({"name": name, "broken": broken})
    else:
        click.echo(f"{printable(name)} is {outcome}")
    if not broken:
        click.get_current_context().exit(console.FREE)


@click.command("ddl")
@url_option
def print_ddl(url: str | None) -> None:
    """Print the DDL of holdfast's tables for a database: PostgreSQL, MariaDB, MySQL or SQLite.

    Clients create the tables on first use, if their role may. This command makes no connection.
    """
    with bad_arguments_are_usage_errors():
        click.echo(holdfast.schema.ddl(url))


def _confirmed(info: holdfast.LeaseInfo, holder: str) -> bool:
    from holdfast.breaking import LIMITS

    chosen = any(member.holder == holder for member in info.members)
    held_by = describe_holder(holder) if chosen else describe_holders(info)
    held = f"{info.name!r} is held by {held_by}, fence {info.fence}"
    left = time_left(info.remaining)
    click.echo(f"{held}. Left: {left}.\nBreaking it does not stop the holder. {LIMITS}", err=True)
    try:
        return click.confirm("Break it?", err=True)
    except OSError:  # the terminal was lent to another group of processes, or has gone
        raise click.UsageError("the terminal does not answer: give --yes to break it.") from None


def _print_table(leases: Iterable[holdfast.LeaseInfo]) -> None:
    head = ("NAME", "FENCE", "LEFT", "WAITERS", "HELD BY")
    rows = [head, *(_row(info, member) for info in leases for member in info.members)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        name, fence, left, waiters, holder = row
        shown = click.style(f"{name:<{widths[0]}}", bold=row is head, fg="cyan")
        click.echo(
            f"{shown}  {fence:>{widths[1]}}  {left:>{widths[2]}}  {waiters:>{widths[3]}}  {holder}"
        )


def facts_of(info: holdfast.LeaseInfo) -> list[tuple[str, str]]:
    """What is known of a lock, for people."""
    facts = [("name", printable(info.name))]
    if info.shares != 1:
        facts.append(("kind", kind_of(info)))
    for member in info.members:
        facts += [("held by", describe_holder(member.holder)), ("holder", printable(member.holder))]
        if member.label and member.label.asked_at:
            facts.append(("asked", _asked(member.label.asked_at)))
        facts += [("fence", str(info.fence)), ("left", time_left(member.remaining))]
    return [*facts, ("waiters", _waiters(info))]


def _row(info: holdfast.LeaseInfo, member: holdfast.Member) -> tuple[str, str, str, str, str]:
    return (
        printable(info.name),
        str(info.fence),
        duration(member.remaining),
        _waiters(info),
        describe_holder(member.holder),
    )


def _waiters(info: holdfast.LeaseInfo) -> str:
    return "?" if info.waiters is None else str(info.waiters)


def _asked(at: float) -> str:
    when = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"at {when} UTC by its own clock, {duration(max(0.0, time.time() - at))} ago"


def _as_dict(info: holdfast.LeaseInfo) -> dict[str, object]:
    first, *_ = members = [_member_as_dict(member) for member in info.members]
    counts = {"fence": info.fence, "waiters": info.waiters, "shares": info.shares}
    return {"name": info.name, **first, **counts, "members": members}


def _member_as_dict(member: holdfast.Member) -> dict[str, object]:
    return {
        "holder": member.holder,
        "remaining": round(member.remaining, 3) if member.remaining < inf else None,
        **label_as_dict(member.label),
        "asked_at": member.label.asked_at if member.label else None,
    }


def _print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2, allow_nan=False))


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
        _print_findings(client.url, client.guarantees, findings)
    found = {finding.severity for finding in findings}
    if "critical" in found:
        click.get_current_context().exit(console.CRITICAL)
    if "warning" in found:
        click.get_current_context().exit(console.WARNINGS)


def _print_findings(
    url: str, guarantees: holdfast.Guarantees, findings: list[holdfast.Finding]
) -> None:
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
