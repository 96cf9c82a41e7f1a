"""The benchmarks run, and write their report. What they measure is not for a test to judge."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.cases import CASES
from benchmarks.measure import Case, Row, Spread, Target, interleave, ratio, rows
from benchmarks.plot import svg
from benchmarks.report import markdown, number

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


def test_the_report_says_what_was_kept_and_what_was_not() -> None:
    row = Row("holdfast <&>", "µs", Spread(1, 2, 3), Spread(1, 1.5, 2), ours=True)
    targets = (Target("quick", "2 µs", True), Target("small", "9 bytes", False))
    case = Case("name", "Title", "What.", "floor", (row,), targets)
    text = markdown([case], "report.svg", 1.0)
    assert "| Title | quick | 2 µs | yes |" in text
    assert "| Title | small | 9 bytes | **no** |" in text
    assert "| **holdfast <&>** | 2.00 µs [1.00 – 3.00] | 1.50 [1.00 – 2.00] |" in text  # noqa: RUF001
    picture = "".join(ElementTree.fromstring(svg([case])).itertext())
    assert "holdfast <&>" in picture
    assert "small: 9 bytes, not kept" in picture


@pytest.mark.slow
def test_everything_runs_and_a_report_is_written(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "--quick", "--to", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    report = (tmp_path / "REPORT.md").read_text()
    assert report.count("\n## ") == 1 + len(CASES)
    ElementTree.parse(tmp_path / "report.svg")
