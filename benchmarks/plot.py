"""The headline as a picture that fits a screen: how many times as fast as each other lock, and as
the bare commands. Hand-made SVG, on a logarithmic scale."""

from collections.abc import Iterator, Sequence
from html import escape
from math import log

from benchmarks.measure import Case, Spread, Target
from benchmarks.report import number

LINES = {
    "Other locks": (
        ("redis-sync", "redis-py Lock", "Redis, 1 thread"),
        ("redis-threads", "redis-py Lock", "Redis, 8 threads"),
        ("redis-async-100", "redis.asyncio Lock", "Redis, 100 tasks"),
        ("redis-async-1000", "redis.asyncio Lock", "Redis, 1,000 tasks"),
        ("redlock-sync", "redlock-py", "Five Redis servers, 1 thread"),
        ("redlock-async", "aioredlock", "Five Redis servers, 100 tasks"),
        ("redlock-async", "pottery", "Five Redis servers, 100 tasks"),
        ("uncontended", "filelock", "SQLite, 1 thread"),
        ("contention", "filelock", "SQLite, 8 processes, one lock"),
        ("postgres-sync", "sqlalchemy-dlock", "PostgreSQL, 1 thread"),
        ("mariadb-sync", "sqlalchemy-dlock", "MariaDB, 1 thread"),
        ("etcd-async", "aetcd", "etcd, 1 task"),
        ("zookeeper-sync", "kazoo Lock", "ZooKeeper, 1 thread"),
    ),
    "The same work with nothing around it": (
        ("redis-sync", "a raw socket", "Redis, 1 thread"),
        ("redis-contention-100", "a bare queue", "Redis, 100 processes, one lock"),
        ("redlock-sync", "raw sockets", "Five Redis servers, 1 thread"),
        ("uncontended", "bare SQL", "SQLite, 1 thread"),
        ("postgres-sync", "bare statements", "PostgreSQL, 1 thread"),
        ("mariadb-sync", "bare statements", "MariaDB, 1 thread"),
        ("etcd-sync", "the raw calls", "etcd, 1 thread"),
        ("zookeeper-sync", "bare kazoo", "ZooKeeper, 1 thread"),
    ),
}
"""The case and the other contender of a promise, and what to call it."""

WIDTH, MARGIN = 900, 20
LABELS, BARS = 340, 390
ROW, HEAD = 21, 26
INK, FAINT, GOOD, BAD = "#1c2429", "#69757d", "#1f6f8b", "#c62828"
FONT = "font-family='system-ui, Helvetica, Arial, sans-serif'"
LEAST, MOST = 0.4, 20.0
"""The ends of the scale."""


def svg(cases: Sequence[Case]) -> str:
    """The whole picture, of the promises that were measured."""
    measured = {
        (case.name, target.other): target
        for case in cases
        for target in case.targets
        if target.measured is not None
    }
    body = [*_text(MARGIN, 34, "holdfast, times as fast as ...", size=17, weight="bold")]
    body += _text(
        MARGIN,
        54,
        "Acquire and release. Bar: median; line: quartiles; tick: what is promised; red: not kept.",
        colour=FAINT,
    )
    top = 66
    for title, lines in LINES.items():
        body += _text(MARGIN, top + 18, title, weight="bold")
        top += HEAD
        for case, other, label in lines:
            target = measured.get((case, other))
            if target is not None and target.measured is not None:
                body += _line(f"{label}: {other}", target, target.measured, top)
                top += ROW
        top += 6
    height = top + MARGIN
    one = _x(1.0)
    axis = f"<path d='M{one:.1f} 66V{top}' stroke='{INK}' stroke-dasharray='2 3'/>"
    scale = _text(one, top + 13, "1: as fast", anchor="middle", colour=FAINT)
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' "
        f"width='{WIDTH}' height='{height}' {FONT} font-size='13'>"
    )
    title = "<title>How fast holdfast is, beside other locks and bare commands</title>"
    ground = f"<rect width='{WIDTH}' height='{height}' fill='white'/>"
    return "\n".join([head, title, ground, *body, axis, *scale, "</svg>\n"])


def _line(label: str, target: Target, measured: Spread, top: float) -> Iterator[str]:
    times = _speeds(measured, target.more)
    bound = target.bound if target.more else 1 / target.bound
    colour = GOOD if target.met else BAD
    middle = top + ROW / 2
    yield from _text(MARGIN + LABELS - 12, middle + 4, label, anchor="end")
    left, right = sorted((_x(1.0), _x(times.median)))
    yield (
        f"<rect x='{left:.1f}' y='{top + 4}' width='{max(1.0, right - left):.1f}' "
        f"height='{ROW - 8}' fill='{colour}' fill-opacity='0.75'/>"
    )
    low, high, tick = _x(times.low), _x(times.high), _x(bound)
    yield f"<path d='M{low:.1f} {middle}H{high:.1f}' stroke='{INK}' stroke-width='1.5'/>"
    yield f"<path d='M{tick:.1f} {top + 1}V{top + ROW - 1}' stroke='{INK}' stroke-width='2'/>"
    figures = f"{number(times.median)} (promised {number(bound)})"
    yield from _text(MARGIN + LABELS + BARS + 8, middle + 4, figures, colour=FAINT, size=11)


def _speeds(measured: Spread, more: bool) -> Spread:
    """Times as fast; what is less the better was measured as times as long."""
    if more:
        return measured
    return Spread(1 / measured.high, 1 / measured.median, 1 / measured.low)


def _x(times: float) -> float:
    part = log(min(max(times, LEAST), MOST) / LEAST) / log(MOST / LEAST)
    return MARGIN + LABELS + BARS * part


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = 13,
    anchor: str = "start",
    colour: str = INK,
    weight: str = "normal",
) -> Iterator[str]:
    yield (
        f"<text x='{x}' y='{y}' font-size='{size}' text-anchor='{anchor}' fill='{colour}' "
        f"font-weight='{weight}'>{escape(text)}</text>"
    )
