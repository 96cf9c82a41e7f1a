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


CAUSES = {
    "set_forward": "time.time = lambda real=time.time: real() + 109",
    "set_back": "time.time = lambda real=time.time: real() - 1",
    "without_processor_time": "disturbance.stolen = lambda real=disturbance.stolen: real() + 5",
    "not_disturbed": "pass",
}


def test_a_failure_counts_unless_the_machine_was_disturbed(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(
        **{f"test_{name}": TESTS.format(cause=cause) for name, cause in CAUSES.items()}
    )
    result = pytester.runpytest_subprocess("-p", "tests.equipment.disturbance")
    result.assert_outcomes(passed=3, failed=5)
    result.stdout.fnmatch_lines(["FAILED test_not_disturbed.py::test_that_fails_once*"])
