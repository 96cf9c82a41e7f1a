"""Every variant of the model: what should hold, does; what is wrong is caught, in a few steps."""

import pytest

from holdfast.lab.model import explore
from holdfast.lab.model.exclusion import HOLDING, OVER, State
from holdfast.lab.model.variants import ALGORITHM, VARIANTS, WRONG

STATES = {
    "fences": 60_000,
    "fences-late": 6_000,
    "fences-far-apart": 50_000,
    "fences-again": 55_000,
    "fences-readers": 100_000,
    "fences-readers-late": 20_000,
    "fences-restored": 100_000,
    "readers": 50_000,
    "readers-five": 10_000,
}
"""How many there are at the least: a search that goes nowhere finds nothing wrong, either."""


def marks(name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] if STATES[name] <= 10_000 else [pytest.mark.full]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=marks(name)) for name in ALGORITHM],
)
def test_it_holds_in_every_run(name: str) -> None:
    states, violation = explore(VARIANTS[name].model)
    print(f"{states} states")
    assert violation is None, str(violation)
    assert states > STATES[name], "the search went nowhere"


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name == "at-least" else []) for name in WRONG],
)
def test_what_is_wrong_is_caught(name: str) -> None:
    violation = explore(VARIANTS[name].model).violation
    assert violation is not None
    print(violation)
    assert len(violation.trace) <= 13


def test_every_group_has_its_variants() -> None:
    assert WRONG
    assert set(ALGORITHM) == set(STATES)


def test_counting_gives_out_three_slots_of_two() -> None:
    """On AB, AC and BC; no node has granted more than two."""
    violation = explore(VARIANTS["counting"].model).violation
    assert str(violation).splitlines() == [
        "A takes a slot, B takes a slot, C takes a slot, all at once:",
        "  1. A takes a slot. n1 grants it to A.",
        "  2. n2 grants it to A. A HOLDS it.",
        "  3. B takes a slot. n3 grants it to B.",
        "  4. n1 grants it to B. B HOLDS it.",
        "  5. C takes a slot. n2 grants it to C.",
        "  6. n3 grants it to C. C HOLDS it.",
    ]


def test_readers_do_hold_together_and_a_writer_does_after_them() -> None:
    """A model in which no client gets anywhere would keep every promise."""

    def two_read(state: State) -> str | None:
        return "two read" if [kind for _, kind in state.holding()] == ["R", "R"] else None

    def one_writes_last(state: State) -> str | None:
        phases = [client.phase for client in state.clients]
        last = state.clients[-1]
        return "writes" if last.kind == "W" and phases == [OVER, OVER, HOLDING] else None

    for judge in (two_read, one_writes_last):
        assert explore(VARIANTS["readers"].model, judge).violation
