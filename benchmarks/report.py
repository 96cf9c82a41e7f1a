"""The answers as Markdown."""

import os
import platform
import sqlite3
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version

from benchmarks.measure import Case, Row, Spread, Target
from holdfast.lab.servers.process import find_redis


def markdown(cases: Sequence[Case], picture: str, made: str, series: Iterable[str] = ()) -> str:
    """The whole report: on what machine it was made, and a table of the last ones."""
    return "\n".join(_lines(cases, picture, made, series)) + "\n"


def _lines(cases: Sequence[Case], picture: str, made: str, series: Iterable[str]) -> Iterator[str]:
    yield "# What holdfast costs"
    yield ""
    yield (
        "Made by `make bench`. Everything was measured in one run, in interleaved rounds, so trust "
        "the ratios more than the figures: they were taken within each round. A figure is the "
        "median of the rounds; in brackets, the quartiles. A promise is kept when the worse "
        "quartile keeps it. [How to read and repeat this](../docs/benchmarks.md)."
    )
    yield ""
    yield f"{made}."
    yield ""
    yield f"![How fast holdfast is, beside other locks and bare commands]({picture})"
    yield ""
    yield "## Promised and measured"
    yield ""
    yield "| case | promised | measured | kept |"
    yield "|---|---|---|---|"
    for case in cases:
        for target in case.targets:
            kept = {True: "yes", False: "**no**", None: "not measured"}[target.met]
            yield f"| {case.title} | {target.text} | {measured(target)} | {kept} |"
    yield ""
    yield from series
    for case in cases:
        yield ""
        yield from _section(case)


def _section(case: Case) -> Iterator[str]:
    yield f"## {case.title}"
    yield ""
    yield case.what
    yield ""
    against = f"times {case.reference}" if case.reference else "ratio"
    yield f"| | figure | {against} |"
    yield "|---|--:|--:|"
    for row in case.rows:
        name = f"**{row.label}**" if row.ours else row.label
        yield f"| {name} | {figure(row)} | {_ratio(case, row)} |"


def figure(row: Row) -> str:
    """A row's value with its unit, and its quartiles if it has any."""
    return f"{number(row.spread.median)} {row.unit}{_quartiles(row.spread)}"


def measured(target: Target) -> str:
    """What came out of a promise: the median, and the quartiles if there are any."""
    if target.measured is None:
        return f"{target.other} is not installed"
    unit = f" {target.unit}" if target.unit else ""
    return f"{number(target.measured.median)}{unit}{_quartiles(target.measured)}"


def _ratio(case: Case, row: Row) -> str:
    if row.ratio is None:
        return "1" if row.label == case.reference and row.unit == case.rows[0].unit else ""
    return f"{number(row.ratio.median)}{_quartiles(row.ratio)}"


def _quartiles(spread: Spread) -> str:
    if spread.low == spread.high:
        return ""
    return f" [{number(spread.low)} – {number(spread.high)}]"  # noqa: RUF001 - a range


def number(value: float) -> str:
    """Three digits that count."""
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.095 else f"{value:.2g}"


PACKAGES = (
    "filelock",
    "click",
    "redis",
    "hiredis",
    "redlock-py",
    "pottery",
    "python-redis-lock",
    "aioredlock",
    "psycopg",
    "PyMySQL",
    "asyncmy",
    "SQLAlchemy",
    "sqlalchemy-dlock",
    "pals",
    "grpcio",
    "aetcd",
    "kazoo",
)


def machine() -> str:
    """What it was measured on, and with."""
    load = os.getloadavg()[0]
    return (
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, "
        f"Redis server {_redis_version()}, {', '.join(map(_package, PACKAGES))}; "
        f"{platform.system()} {platform.machine()} with {os.cpu_count()} cores, load {load:.1f}"
    )


def _package(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"no {name}"


def _redis_version() -> str:
    """Of `Redis server v=7.0.15 sha=...`."""
    told = subprocess.run([find_redis(), "--version"], capture_output=True, text=True, check=True)
    return told.stdout.partition("v=")[2].split()[0]
