"""A machine that is disturbed from outside while a test runs."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = """
import time

from tests.equipment import disturbance

SEEN = []


def test_that_fails_once():
    SEEN.append(1)
    if len(SEEN) == 1:
        {cause}
        assert False, "the first time"


def test_that_fails():
    assert False, "each time"
"""


@pytest.mark.parametrize(
    ("cause", "passed"),
    [
        ("time.time = lambda real=time.time: real() + 109", 1),
        ("time.time = lambda real=time.time: real() - 1", 1),
        ("disturbance.stolen = lambda real=disturbance.stolen: real() + 5", 1),
        ("pass", 0),
    ],
    ids=["set forward", "set back", "without processor time", "not disturbed"],
)
def test_a_failure_counts_unless_the_machine_was_disturbed(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, cause: str, passed: int
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(TESTS.format(cause=cause))
    result = pytester.runpytest_subprocess("-p", "tests.equipment.disturbance")
    result.assert_outcomes(passed=passed, failed=2 - passed)
