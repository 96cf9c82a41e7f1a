"""Fences over independent nodes: every run of the model, and of the tempting variants.

A fence is safe because a quorum of nodes *equal* it, and report it only to their own holder.
"Granted only" guards the same thing again; the max is there for progress.
"""

from collections.abc import Collection
from dataclasses import replace
from itertools import product

import pytest

from holdfast.lab.model import Judge, explore
from holdfast.lab.model.fences import (
    COMMITTED,
    Attempt,
    Rules,
    Site,
    State,
    fences_grow,
    holders_agree,
)
from holdfast.lab.model.nodes import Node
from holdfast.lab.model.variants import VARIANTS, median

RULES = Rules()


@pytest.mark.parametrize("judge", [fences_grow, holders_agree])
@pytest.mark.parametrize(
    "name",
    [
        "median",
        "no-raise",
        "raise-for-any",
        pytest.param("at-least", marks=pytest.mark.slow),
        "no-grant",
        "open-as-it-is",
    ],
)
def test_each_judge_catches_a_tempting_variant(name: str, judge: Judge[State]) -> None:
    violation = explore(VARIANTS[name].model, judge).violation
    assert violation is not None
    print(violation)
    assert len(violation.trace) <= 6
    assert violation.trace[0].startswith(("A begins. ", "A reads. "))
    assert violation.trace[-1].count("COMMITTED") == 1
    assert str(violation).count("COMMITTED") == 2


def test_a_counterexample_can_be_read() -> None:
    violation = explore(VARIANTS["raise-for-any"].model).violation
    assert str(violation).splitlines() == [
        "A and B both committed 2:",
        "  1. A begins. n1 grants A 1.",
        "  2. n2 grants A 2. A stops: fence 2.",
        "  3. B begins. n3 grants B 2.",
        "  4. A's lock on n1 expires. n1 grants B 2. B stops: fence 2. B has COMMITTED 2.",
        "  5. A raises n1 to 2, and receives 2. A has COMMITTED 2.",
    ]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("fences", marks=pytest.mark.slow),
        "fences-late",
        "fences-far-apart",
        "fences-again",
        pytest.param("fences-readers", marks=pytest.mark.slow),
        "fences-readers-late",
        pytest.param("fences-restored", marks=pytest.mark.slow),
    ],
)
def test_there_are_runs_in_which_all_attempts_acquire(name: str) -> None:
    def all_committed(state: State) -> str | None:
        return "all acquire" if len(state.committed()) == len(state.attempts) else None

    assert explore(VARIANTS[name].model, all_committed).violation


def test_fences_against_the_order_of_holds_are_found() -> None:
    site = Site(Node("B", 3), order="AB", pending=(False, False), received=(3, 2))
    attempts = Attempt(COMMITTED, fence=3), Attempt(COMMITTED, fence=2)
    assert "not in the order of their holds" in str(holders_agree(State((site,), attempts, 0)))
    assert holders_agree(State((site._replace(order="BA"),), attempts, 0)) is None


def acquires_undisturbed(rules: Rules, counters: Collection[int], quorum: int) -> bool:
    """Whether an attempt that received these grants is committed, if nothing else happens."""
    fence = rules.fence_of(counters)
    answers = [rules.raise_counter(Node("A", counter), "A", fence)[1] for counter in counters]
    return rules.is_committed([answer for answer in answers if answer is not None], fence, quorum)


def test_an_undisturbed_attempt_acquires() -> None:
    grants = [*product(range(1, 4), repeat=2), *product(range(1, 4), repeat=3)]
    assert all(acquires_undisturbed(RULES, counters, 2) for counters in grants)
    # The median is safe where equality is asked for, but then it may never acquire.
    assert not acquires_undisturbed(replace(RULES, fence_of=median), (1, 2), 2)


def test_a_node_grants_to_one_at_a_time_with_growing_counters() -> None:
    node, counter = Node().acquire("A", proposed=5)
    assert (node, counter) == (Node("A", 5), 5)
    assert node.acquire("B", proposed=9) == (node, None)
    assert node.acquire("A", proposed=9) == (node, 5)
    assert node.release("B") == node
    assert node.release("A") == node.expire() == Node("", 5)
    assert node.expire().acquire("B", proposed=3) == (Node("B", 6), 6)


def test_a_node_raises_its_counter_for_its_holder_and_never_lowers_it() -> None:
    node = Node("A", 5)
    assert node.raise_counter("A", 7) == (Node("A", 7), 7)
    assert node.raise_counter("A", 3) == (node, None)
    assert node.raise_counter("B", 7) == (node, None)
    assert node.expire().raise_counter("A", 7) == (node.expire(), None)


def test_a_node_lets_readers_share_it_and_no_writer() -> None:
    node, counter = Node().acquire("A", 5, reads=True)
    assert (node, counter) == (Node("A", 5, shared=True), 5)
    both = Node("AB", 5, shared=True)
    assert node.acquire("B", 9, reads=True) == (both, 5), "together, with one fence"
    assert both.acquire("C", 9) == (both, None)
    assert both.raise_counter("B", 7) == (Node("AB", 7, shared=True), 7)
    assert both.raise_counter("C", 7) == (both, None)
    assert both.release("C") == both
    assert both.release("A") == Node("B", 5, shared=True)
    assert both.release("A").release("B") == Node("", 5)
    assert Node("W", 5).acquire("A", 9, reads=True) == (Node("W", 5), None)
    assert Node("", 5).acquire("A", 3, reads=True)[1] == 6, "alone, with a greater one"


def test_a_node_restores_a_share_beside_others_and_no_writer() -> None:
    alone, beside = Node("", 5), Node("B", 5, shared=True)
    assert alone.repair("A", 3, reads=True) == Node("A", 6, shared=True)
    assert alone.repair("A", 8, reads=True) == Node("A", 8, shared=True)
    assert beside.repair("A", 3, reads=True) == Node("AB", 5, shared=True)
    assert beside.repair("A", 8, reads=True) == Node("AB", 8, shared=True)
    assert Node("W", 5).repair("A", 8, reads=True) == Node("W", 5)
    assert beside.repair("W", 8) == beside
