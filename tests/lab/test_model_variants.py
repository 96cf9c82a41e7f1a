"""Every variant of the model: what should hold, does; what is wrong is caught, in a few steps."""

import pytest

from holdfast.lab.model.variants import VARIANTS, Group, run

STATES = {
    "fences": 60_000,
    "fences-late": 6_000,
    "fences-far-apart": 50_000,
    "fences-again": 55_000,
    "median-exact": 4_000,
    "no-grant-exact": 7_000,
    "at-least-once": 6_000,
}
"""How many there are at the least: a search that goes nowhere finds nothing wrong, either."""


def marks(name: str) -> list[pytest.MarkDecorator]:
    if name == "fences":
        return [pytest.mark.full]
    return [] if name == "fences-late" else [pytest.mark.slow]


def names(*groups: Group) -> list[str]:
    return [name for name, variant in VARIANTS.items() if variant.group in groups]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=marks(name)) for name in names(Group.ALGORITHM, Group.HARMLESS)],
)
def test_it_holds_in_every_run(name: str) -> None:
    result = run(name)
    print(f"{result.explored.states} states")
    assert result.explored.violation is None, str(result.explored.violation)
    assert result.explored.states > STATES[name], "the search went nowhere"
    assert result.as_expected


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name == "at-least" else [])
        for name in names(Group.WRONG)
    ],
)
def test_what_is_wrong_is_caught(name: str) -> None:
    result = run(name)
    assert result.explored.violation is not None
    print(result.explored.violation)
    assert len(result.explored.violation.trace) <= 13
    assert result.as_expected


def test_every_group_has_its_variants() -> None:
    assert all(names(group) for group in Group)
    assert set(names(Group.ALGORITHM, Group.HARMLESS)) == set(STATES)
