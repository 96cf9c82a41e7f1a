"""Fencing tokens over independent nodes: every run of the model, and of the tempting variants.

A token is safe because a quorum of nodes *equal* it, and say so to nobody but their own holder.
"Heard only" guards the same thing again: it makes up for a missing equality as long as no acquire
is executed twice. The max is there for progress, and for safety only where equality is missing.
"""

from collections.abc import Collection
from dataclasses import replace
from itertools import product

import pytest

from holdfast.lab.model import (
    COMMITTED,
    Attempt,
    Explored,
    Judge,
    Node,
    Rules,
    Site,
    State,
    World,
    explore,
    tenures_agree,
    tokens_grow,
)

RULES = Rules()

HEARD = World(attempts=3)
LATE = World(attempts=2, late=True)
LATE_AND_FAR_APART = replace(LATE, proposals=(0, 2, 4))
LATE_AND_AGAIN = replace(LATE, repeats=1)


def median(counters: Collection[int]) -> int:
    return sorted(counters)[(len(counters) - 1) // 2]


def any_grants(counters: Collection[int], token: int, quorum: int) -> bool:
    return len(counters) >= quorum


def at_least(counters: Collection[int], token: int, quorum: int) -> bool:
    return sum(counter >= token for counter in counters) >= quorum


def raise_for_anybody(node: Node, holder: str, token: int) -> tuple[Node, int | None]:
    raised = node._replace(counter=max(node.counter, token))
    return raised, raised.counter


def answer_anybody(node: Node, holder: str, token: int) -> tuple[Node, int | None]:
    raised, _ = node.raise_counter(holder, token)
    return raised, raised.counter


def holds(explored: Explored, world: World, at_least_states: int) -> None:
    print(f"{explored.states} states")
    assert explored.violation is None, str(explored.violation)
    assert explored.states > at_least_states, "the search went nowhere"
    assert explored.acquired == world.attempts, "in no run did all of them acquire"


@pytest.mark.parametrize(
    ("world", "states"),
    [
        pytest.param(HEARD, 60_000, marks=pytest.mark.slow),
        pytest.param(LATE, 6_000),
        pytest.param(LATE_AND_FAR_APART, 50_000, marks=pytest.mark.slow),
        pytest.param(LATE_AND_AGAIN, 60_000, marks=pytest.mark.slow),
    ],
    ids=["heard", "late", "late and far apart", "late and again"],
)
def test_tokens_grow_whatever_happens(world: World, states: int) -> None:
    holds(explore(world, RULES), world, states)


WRONG = {
    "no raise: any quorum of grants": (HEARD, replace(RULES, is_committed=any_grants)),
    "raise for anybody": (HEARD, replace(RULES, raise_counter=raise_for_anybody)),
    "raise for the holder, answer anybody": (HEARD, replace(RULES, raise_counter=answer_anybody)),
    "at least the token": (LATE_AND_AGAIN, replace(RULES, is_committed=at_least)),
    "at least the token, unheard too": (
        LATE,
        replace(RULES, is_committed=at_least, heard_only=False),
    ),
    "at least the median": (HEARD, replace(RULES, is_committed=at_least, token_of=median)),
}


@pytest.mark.parametrize("judge", [tokens_grow, tenures_agree])
@pytest.mark.parametrize("variant", WRONG)
def test_a_tempting_variant_is_wrong(variant: str, judge: Judge) -> None:
    world, rules = WRONG[variant]
    violation = explore(world, rules, (judge,)).violation
    assert violation is not None
    print(violation)
    assert len(violation.trace) <= 6
    assert violation.trace[0].startswith("A begins. ")
    assert violation.trace[-1].count("COMMITTED") == 1
    assert str(violation).count("COMMITTED") == 2


def test_a_counterexample_can_be_read() -> None:
    world, rules = WRONG["raise for anybody"]
    violation = explore(world, rules).violation
    assert str(violation).splitlines() == [
        "B and A both committed 2:",
        "  1. A begins. n1 grants A 1.",
        "  2. n2 grants A 2. A stops: token 2.",
        "  3. B begins. n3 grants B 2.",
        "  4. A's lock on n1 expires. n1 grants B 2. B stops: token 2. B has COMMITTED 2.",
        "  5. A raises n1 to 2, and hears that it is at 2. A has COMMITTED 2.",
    ]


@pytest.mark.parametrize(
    "rules",
    [
        replace(RULES, heard_only=False),
        replace(RULES, token_of=median),
        replace(RULES, is_committed=at_least),
    ],
    ids=["unheard too", "median", "at least the token, each executed once"],
)
def test_one_guard_may_be_missing(rules: Rules) -> None:
    holds(explore(LATE, rules), LATE, 4_000)


def test_tokens_against_the_order_of_tenures_are_found() -> None:
    site = Site(Node("B", 3), order="AB", pending=(False, False), heard=(3, 2))
    attempts = Attempt(COMMITTED, token=3), Attempt(COMMITTED, token=2)
    assert "not in the order of their tenures" in str(tenures_agree(State((site,), attempts, 0), 1))
    assert tenures_agree(State((site._replace(order="BA"),), attempts, 0), 1) is None


def acquires_undisturbed(rules: Rules, counters: Collection[int], quorum: int) -> bool:
    """Whether an attempt that heard these grants is committed, if nothing else happens."""
    token = rules.token_of(counters)
    answers = [rules.raise_counter(Node("A", counter), "A", token)[1] for counter in counters]
    return rules.is_committed([answer for answer in answers if answer is not None], token, quorum)


def test_whoever_is_undisturbed_acquires() -> None:
    grants = [*product(range(1, 4), repeat=2), *product(range(1, 4), repeat=3)]
    assert all(acquires_undisturbed(RULES, counters, 2) for counters in grants)
    # The median is safe where equality is asked for, but then it may never acquire.
    assert not acquires_undisturbed(replace(RULES, token_of=median), (1, 2), 2)


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
    assert node.raise_counter("A", 3) == (node, 5)
    assert node.raise_counter("B", 7) == (node, None)
    assert node.expire().raise_counter("A", 7) == (node.expire(), None)
