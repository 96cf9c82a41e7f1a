"""`holdfast lab model`."""

import pytest
from click.testing import CliRunner, Result

from holdfast.cli.lab.simulate import _chosen, model
from holdfast.lab.model.variants import ALGORITHM, VARIANTS, WRONG


def run_model(*arguments: str) -> Result:
    return CliRunner().invoke(model, arguments)


def test_the_list_has_every_variant() -> None:
    listed = run_model("--list")
    assert listed.exit_code == 0
    assert [line.split()[0] for line in listed.output.splitlines() if line[0] == " "] == [*VARIANTS]


def test_a_wrong_variant_is_caught_and_its_steps_are_numbered() -> None:
    caught = run_model("no-raise")
    assert caught.exit_code == 0
    first, what, *steps = caught.output.splitlines()
    assert first.split()[:2] == ["no-raise", "fails"]
    assert what == "B committed 2, and began after 2 had been committed:"
    assert [step.split(".")[0].strip() for step in steps] == ["1", "2", "3", "4"]


def test_what_is_not_as_expected_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(WRONG, "no-raise")
    caught = run_model("no-raise")
    assert caught.exit_code == 1
    assert "NOT AS EXPECTED" in caught.output


def test_a_variant_that_holds_says_so() -> None:
    held = run_model("fences-late")
    assert held.exit_code == 0
    assert held.output.split()[:2] == ["fences-late", "holds"]
    assert len(held.output.splitlines()) == 1


def test_a_variant_that_is_not_there_is_a_usage_error() -> None:
    refused = run_model("nonsense")
    assert refused.exit_code == 2  # which the program turns into 64
    assert "there is no variant 'nonsense'" in refused.output


def test_without_a_variant_the_algorithms_are_explored() -> None:
    assert _chosen(None) == [*ALGORITHM]
