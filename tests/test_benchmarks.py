"""The benchmarks run, and write their report. What they measure is not for a test to judge."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from itertools import cycle
from multiprocessing import Pipe
from pathlib import Path
from threading import Thread
from xml.etree import ElementTree

import pytest

from benchmarks import series, workers
from benchmarks.cases import CASES, contention, redis_contention
from benchmarks.measure import (
    QUICK,
    Case,
    Row,
    Spread,
    Target,
    at_least,
    at_most,
    faster,
    interleave,
    ratio,
    rows,
    worth_counting,
)
from benchmarks.peers import sqlite_url
from benchmarks.plot import BAD, LINES, svg
from benchmarks.redis.contest import KINDS
from benchmarks.redis.floors import LockCommands
from benchmarks.report import markdown, number
from holdfast.core.messages import Acquire, Release
from holdfast.engines.redis.commands import Commands

ROOT = Path(__file__).parent.parent


def test_a_spread_is_the_median_and_the_quartiles() -> None:
    assert Spread.of([5, 1, 3, 2, 4]) == Spread(2, 3, 4)
    assert Spread.of([7]) == Spread(7, 7, 7)


def test_ratios_are_taken_within_a_round() -> None:
    values = {"floor": [1.0, 10.0, 100.0], "holdfast": [2.0, 20.0, 200.0]}
    assert ratio(values, "holdfast", "floor") == Spread(2, 2, 2)
    assert ratio(values, "floor", "floor") is None
    floor, ours = rows(values, "ms", 1000, "floor")
    assert (floor.ours, ours.ours) == (False, True)
    assert ours.spread.median == 20_000


def test_every_round_has_one_batch_of_each() -> None:
    order: list[str] = []

    def batch(label: str) -> float:
        order.append(label)
        return len(order)

    values = interleave({"a": lambda: batch("a"), "b": lambda: batch("b")}, 5)
    assert [len(measured) for measured in values.values()] == [5, 5]
    measured = order[2:]  # without the warm-up
    assert all({*measured[i : i + 2]} == {"a", "b"} for i in range(0, 10, 2))


@pytest.mark.parametrize(
    ("value", "text"),
    [(12345.6, "12,346"), (12.345, "12.3"), (1.2345, "1.23"), (0.012345, "0.012"), (0, "0")],
)
def test_numbers_have_about_three_digits(value: float, text: str) -> None:
    assert number(value) == text


ROWS = (Row("holdfast <&>", "µs", Spread(1, 2, 3), Spread(1, 1.5, 2), ours=True),)


def test_the_report_says_what_was_kept_and_what_was_not() -> None:
    targets = (
        Target("quick", Spread(1, 2, 3), 3, "µs"),
        Target("small", Spread(9, 9, 9), 8, "bytes"),
    )
    text = markdown([Case("name", "Title", "What.", "floor", ROWS, targets)], "report.svg", "made")
    assert "| Title | quick | 2.00 µs [1.00 – 3.00] | yes |" in text  # noqa: RUF001
    assert "| Title | small | 9.00 bytes | **no** |" in text
    assert "| **holdfast <&>** | 2.00 µs [1.00 – 3.00] | 1.50 [1.00 – 2.00] |" in text  # noqa: RUF001


def test_a_promise_is_kept_when_the_worse_quartile_keeps_it() -> None:
    spread = Spread(1, 2, 3)
    assert [Target("", spread, most).met for most in (3, 2.9)] == [True, False]
    assert [Target("", spread, least, more=True).met for least in (1, 1.1)] == [True, False]


def test_promises_are_kept_at_the_bound_and_broken_beyond_it() -> None:
    values = {"floor": [1.0], "holdfast": [1.5], "peer": [3.0]}
    assert [at_most(values, "holdfast", "floor", most).met for most in (1.5, 1.4)] == [True, False]
    assert [faster(values, "holdfast", "peer", least).met for least in (2, 2.1)] == [True, False]
    assert [at_least(values, "peer", "floor", least).met for least in (3, 3.1)] == [True, False]


def test_a_peer_that_is_not_installed_is_neither_beaten_nor_ahead() -> None:
    values = {"holdfast": [1.0]}
    assert faster(values, "holdfast", "peer").met is None
    assert at_least(values, "holdfast", "peer", 2.0).met is None


def test_what_could_not_be_measured_is_neither_kept_nor_broken() -> None:
    target = Target("quick", None, 1, other="a peer")
    text = markdown([Case("name", "Title", "What.", "", ROWS, (target,))], "report.svg", "made")
    assert "| Title | quick | a peer is not installed | not measured |" in text


def test_the_picture_has_the_headlines_that_were_measured() -> None:
    kept = Target("", Spread(2, 2.5, 3), 1.8, more=True, other="redis-py Lock")
    broken = Target("", Spread(1, 2, 4), 1.5, other="a raw socket")
    missing = Target("", None, 12, more=True, other="aioredlock")
    cases = [
        Case("redis-sync", "Title", "What.", "", ROWS, (kept, broken)),
        Case("redlock-async", "Title", "What.", "", ROWS, (missing,)),
    ]
    picture = svg(cases)
    words = " ".join("".join(ElementTree.fromstring(picture).itertext()).split())
    assert "redis-py Lock 2.50 (promised 1.80)" in words
    assert "a raw socket 0.50 (promised 0.67)" in words  # twice as long is half as fast
    assert "aioredlock" not in words
    assert picture.count(f"fill='{BAD}'") == 1


def test_the_picture_fits_a_screen() -> None:
    cases = [
        Case(name, "Title", "What.", "", ROWS, (Target("", Spread(1, 2, 3), 1, other=other),))
        for lines in LINES.values()
        for name, other, _ in lines
    ]
    assert int(ElementTree.fromstring(svg(cases)).attrib["height"]) <= 700


def test_every_headline_is_a_case() -> None:
    assert {name for lines in LINES.values() for name, _, _ in lines} <= {*CASES}


def test_the_last_ten_reports_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "series.jsonl"
    for quartile in range(3, 15):
        target = Target("quick", Spread(1, 2, quartile), 13)
        unmeasured = Target("peer", None, 1)
        case = Case("name", "Title", "What.", "", ROWS, (target, unmeasured))
        reports = series.append(path, series.entry([case], "here"))
    assert len(path.read_text().splitlines()) == 12
    *_, last = series.table(reports)
    assert last == "| name | quick | 5 | 6 | 7 | 8 | 9 | 10 | 11 | 12 | 13 | **14** |"


@pytest.mark.parametrize("quorum", [False, True])
def test_the_floor_sends_what_holdfast_sends(quorum: bool) -> None:
    commands = Commands(quorum=quorum, keep=3600.0, channel=f"holdfast:{'0' * 24}")
    floor = LockCommands("bench", quorum=quorum)
    holder = "host/1/program/secret"
    [release] = commands.exchange((Release("holdfast:bench", holder),), False).commands
    assert floor.release(holder.encode()) == release
    [acquire] = commands.exchange((Acquire("holdfast:bench", holder, 30),), False).commands
    # Without the fence that is proposed to a quorum: it is another one each time.
    head, _, tail = acquire.rpartition(b"$1\r\n0\r\n" if quorum else b"\r\n")
    sent = floor.acquire(holder.encode())
    assert sent.startswith(head)
    assert sent.endswith(tail)
    assert quorum or sent == acquire


SOME = ["uncontended", "redis-handoff"]
"""All take many minutes."""

FULL = pytest.mark.full


def test_a_contest_that_says_nothing_is_held_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine that had other things to do, SQLite."""
    rounds = cycle([[[], []], [[1.0], []], [[1.0], [1.0, 3.0]]])
    monkeypatch.setattr(contention, "_contenders", lambda kind, stack: [])
    monkeypatch.setattr(contention, "_contest", lambda workers, seconds: next(rounds))
    case = contention.measure(QUICK, tmp_path)
    waits = [row.spread for row in case.rows if row.unit == "ms wait, median"]
    assert waits == [Spread(1000, 1000, 1000)] * 3


def test_what_is_granted_after_the_end_of_a_contest_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.5
    monkeypatch.setattr(workers, "clock", lambda: now)
    kind, (ours, theirs) = workers.Kind(sqlite_url(tmp_path, "contest")), Pipe()
    contender = Thread(target=workers.run_job, args=(workers.contend, theirs, kind, 0.0))
    contender.start()
    assert ours.recv() == "ready"
    with kind.open() as opened:
        assert opened.lock.acquire()
        ours.send((0.0, 1.0))
        opened.wait_for_waiters(1)
        now = 2.0
        opened.lock.release()
        assert ours.recv() == []
    ours.close()
    contender.join()


def test_contests_in_which_nobody_gets_in_come_to_an_end() -> None:
    with pytest.raises(RuntimeError, match="almost no contender got the lock"):
        worth_counting(lambda: 1, lambda sections: sections)


@pytest.mark.slow
def test_a_contest_that_says_nothing_is_held_again_on_redis(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[list[list[float]]] = [[[], []], [[1.0], []], [[1.0], [1.0, 3.0]]]
    rounds = cycle(redis_contention.Result(1.0, each, 3, 1.0, 1.0) for each in waits)
    monkeypatch.setattr(redis_contention, "_contest", lambda *args: next(rounds))
    case = redis_contention._measure("contest", "nobody", [], QUICK)
    medians = [row.spread for row in case.rows if row.unit == "ms wait, median"]
    assert medians == [Spread(1000, 1000, 1000)] * len(KINDS)


@pytest.mark.slow
@pytest.mark.parametrize("names", [SOME, pytest.param([*CASES], marks=FULL)])
def test_everything_runs_and_a_report_is_written(tmp_path: Path, names: Sequence[str]) -> None:
    words = ["--quick", "--to", str(tmp_path), *(f"--only={name}" for name in names)]
    command = [sys.executable, "-m", "benchmarks", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stdout + done.stderr
    report = (tmp_path / "REPORT.md").read_text()
    assert report.count("\n## ") == 2 + len(names)
    assert len((tmp_path / "series.jsonl").read_text().splitlines()) == 1
    ElementTree.parse(tmp_path / "report.svg")
