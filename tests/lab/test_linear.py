from dataclasses import replace
from math import inf
from random import Random

import pytest

from holdfast.lab.history import Event, History, Kind
from holdfast.lab.linear import Action, Model, Operation, Outcome, check, operations
from holdfast.lab.linear.search import Search
from tests.lab.orders import (
    ACQUIRE,
    NO,
    OK,
    RELEASE,
    UNKNOWN,
    Run,
    at_random,
    damaged,
    explained_by_some_order,
)

LOCK, REENTRANT, FENCED = Model


def acquire(
    who: str,
    invoked: float,
    responded: float,
    outcome: Outcome = OK,
    *,
    fence: int | None = None,
    expires: float = inf,
    name: str = "orders",
) -> Operation:
    return Operation(who, ACQUIRE, outcome, invoked, responded, name, fence, expires)


def release(who: str, invoked: float, responded: float, outcome: Outcome = OK) -> Operation:
    return Operation(who, RELEASE, outcome, invoked, responded, "orders")


def unheard(
    who: str, action: Action, invoked: float, *, expires: float = inf, name: str = "orders"
) -> Operation:
    return Operation(who, action, UNKNOWN, invoked, name=name, expires=expires)


def explained(model: Model, *calls: Operation) -> bool:
    return not check(calls, model)


def test_one_after_the_other() -> None:
    calls = [acquire("A", 0, 1), release("A", 2, 3), acquire("B", 2.5, 4)]
    assert explained(LOCK, *calls)


def test_two_owners_at_once() -> None:
    (finding,) = check([acquire("A", 0, 1), acquire("B", 2, 3)], LOCK)
    assert finding.text == (
        "no order explains that B was granted orders between 2.000 s and 3.000 s: A had it"
    )
    assert (finding.at, finding.until, finding.who) == (2, 3, ("A", "B"))


def test_a_release_has_its_effect_while_it_is_under_way_and_not_before() -> None:
    assert explained(LOCK, acquire("A", 0, 1), acquire("B", 2, 5), release("A", 4, 6))
    assert not explained(LOCK, acquire("A", 0, 1), acquire("B", 2, 3), release("A", 4, 6))


def test_calls_that_touch_overlap() -> None:
    assert explained(LOCK, acquire("A", 0, 1), acquire("B", 2, 3), release("A", 3, 4))


def test_who_is_refused_what_nobody_has() -> None:
    assert explained(LOCK, acquire("A", 0, 4), acquire("B", 1, 2, NO))
    assert not explained(LOCK, acquire("A", 3, 4), acquire("B", 1, 2, NO))


def test_what_is_not_yours_cannot_be_released() -> None:
    assert explained(LOCK, acquire("A", 0, 1), release("B", 2, 3, NO))
    assert not explained(LOCK, acquire("A", 0, 1), release("B", 2, 3))
    assert not explained(LOCK, acquire("A", 0, 1), release("A", 2, 3, NO))


def test_the_owner_is_refused_unless_the_lock_is_reentrant() -> None:
    assert explained(LOCK, acquire("A", 0, 1), acquire("A", 2, 3, NO))
    assert not explained(REENTRANT, acquire("A", 0, 1), acquire("A", 2, 3, NO))
    assert not explained(LOCK, acquire("A", 0, 1), acquire("A", 2, 3))


def test_a_reentrant_lock_is_free_after_as_many_releases() -> None:
    twice = [acquire("A", 0, 1), acquire("A", 2, 3), release("A", 4, 5)]
    assert not explained(REENTRANT, *twice, acquire("B", 6, 7))
    assert explained(REENTRANT, *twice, release("A", 5.5, 5.7), acquire("B", 6, 7))


def test_fences_grow() -> None:
    first = [acquire("A", 0, 1, fence=7), release("A", 2, 3)]
    assert explained(FENCED, *first, acquire("B", 4, 5, fence=8))
    (finding,) = check([*first, acquire("B", 4, 5, fence=7)], FENCED)
    assert finding.text == (
        "no order explains that B was granted orders (fence 7) between 4.000 s and 5.000 s: "
        "nobody had it, and the last fence was 7"
    )


def test_a_grant_that_was_not_heard_took_a_fence() -> None:
    first = [acquire("A", 0, 1, fence=7), release("A", 2, 3)]
    between = [unheard("C", ACQUIRE, 2, expires=6), acquire("D", 4, 5, NO)]
    assert not explained(FENCED, *first, *between, acquire("B", 6, 7, fence=8))
    assert explained(FENCED, *first, *between, acquire("B", 6, 7, fence=9))


def test_a_lock_may_expire_from_its_deadline_on_and_need_not() -> None:
    first = acquire("A", 0, 1, expires=5)
    assert not explained(LOCK, first, acquire("B", 2, 4))
    assert explained(LOCK, first, acquire("B", 2, 6))
    assert explained(LOCK, first, acquire("B", 6, 7, NO))
    assert explained(LOCK, first, acquire("B", 2, 6), release("A", 7, 8, NO))


def test_what_was_granted_too_late_was_over_before_the_next() -> None:
    late = acquire("A", 0, 6, expires=2)
    assert explained(LOCK, late, acquire("B", 3, 4, expires=10))
    assert not explained(LOCK, late, acquire("B", 1, 1.5, expires=10))


def test_what_was_not_heard_may_have_an_effect_late_or_never() -> None:
    unknown = unheard("A", ACQUIRE, 0)
    assert explained(LOCK, unknown, acquire("B", 1, 2), release("B", 3, 4), acquire("C", 8, 9, NO))
    assert explained(LOCK, unknown, acquire("B", 1, 2), release("B", 3, 4), acquire("C", 8, 9))
    assert not explained(LOCK, unknown, acquire("B", 8, 9, NO), acquire("C", 10, 11))
    gone = unheard("A", RELEASE, 5)
    assert explained(LOCK, unknown, gone, acquire("B", 8, 9, NO), acquire("C", 10, 11))


def test_a_release_that_was_not_heard_makes_its_owner_unlike_others() -> None:
    stays = unheard("A", ACQUIRE, 0, expires=100)
    goes = [unheard("C", RELEASE, 0), unheard("C", ACQUIRE, 0)]
    later = [acquire("D", 8, 9, NO), acquire("B", 10, 11)]
    assert explained(LOCK, stays, *goes, *later)
    assert not explained(LOCK, stays, *later)


def test_one_owner_may_have_several_calls_under_way() -> None:
    at_once = [acquire("A", 0, 10), release("A", 0, 10)]
    assert explained(LOCK, *at_once, acquire("B", 3, 4))
    assert not explained(LOCK, *at_once, acquire("B", 3, 4), acquire("C", 5, 6))


def test_a_refusal_between_two_grants_to_the_same_owner() -> None:
    calls = [acquire("C", 3, 5, expires=8), acquire("C", 3, 7, NO), acquire("B", 6, 9)]
    assert not explained(REENTRANT, *calls)
    assert explained(REENTRANT, *calls, unheard("A", ACQUIRE, 0, expires=3))


def test_each_name_is_a_lock_of_its_own() -> None:
    calls = [acquire("A", 0, 1, name="a"), acquire("B", 0, 1, name="b")]
    assert explained(LOCK, *calls)
    assert len(check([*calls, replace(calls[0], who="C"), replace(calls[1], who="C")], LOCK)) == 2


@pytest.mark.parametrize(
    ("who", "outcome", "responded"),
    [("A", OK, -1.0), ("A", OK, inf), ("A", UNKNOWN, 1.0), ("", OK, 1.0)],
)
def test_an_operation_that_makes_no_sense(who: str, outcome: Outcome, responded: float) -> None:
    with pytest.raises(ValueError, match="Operation"):
        acquire(who, 0, responded, outcome)


def test_a_fenced_lock_without_a_fence_is_an_error() -> None:
    with pytest.raises(ValueError, match="fence"):
        check([acquire("A", 0, 1)], FENCED)


def small_histories(seed: int, model: Model) -> list[list[Operation]]:
    """One of no sense, one of a lock that keeps the rules, and the same with something wrong."""
    random = Random(seed)
    ttl, lost = random.choice([3, 6, 50]), random.choice([0, 0.2, 0.4])
    keeps_name = random.choice([True, False])
    run = Run(random, model, 3, ttl=ttl, lost=lost, whole=True, keeps_name=keeps_name)
    true = run.operations(random.randint(2, 6))
    return [at_random(random, model), true, damaged(random, true)]


@pytest.mark.slow
@pytest.mark.parametrize("model", Model)
def test_it_agrees_with_trying_every_order(model: Model) -> None:
    verdicts = {True: 0, False: 0}
    for seed in range(1500):
        for calls in small_histories(seed, model):
            verdict = explained_by_some_order(calls, model)
            assert explained(model, *calls) is verdict, (seed, calls)
            verdicts[verdict] += 1
    assert min(verdicts.values()) > 1000


@pytest.mark.slow
def test_it_agrees_also_if_it_goes_back_step_by_step() -> None:
    for seed in range(1500):
        for calls in small_histories(seed, REENTRANT):
            verdict = explained_by_some_order(calls, REENTRANT)
            assert (Search(calls, REENTRANT, stride=1).failure() is None) is verdict, (seed, calls)


def long_history(model: Model, *, lost: float = 0.01, keeps_name: bool = False) -> list[Operation]:
    run = Run(Random(5), model, 12, ttl=4, lost=lost, whole=False, keeps_name=keeps_name)
    return run.operations(40_000)


@pytest.mark.slow
@pytest.mark.parametrize("model", Model)
def test_a_long_history_of_a_true_lock(model: Model) -> None:
    assert check(long_history(model), model) == []


@pytest.mark.slow
@pytest.mark.parametrize("model", Model)
def test_a_long_history_of_clients_that_keep_their_names(model: Model) -> None:
    assert check(long_history(model, lost=0.05, keeps_name=True), model) == []


@pytest.mark.slow
@pytest.mark.parametrize("model", Model)
def test_a_violation_in_the_middle_of_a_long_history(model: Model) -> None:
    calls = long_history(model)
    middle = next(n for n in range(20_000, 40_000) if is_grant(calls[n]))
    at = calls[middle].responded
    intruder = acquire("intruder", at, at, name="", fence=10**6)
    (finding,) = check([*calls, intruder], model)
    assert finding.at == at
    assert "intruder" in finding.text


def is_grant(call: Operation) -> bool:
    return call.action is ACQUIRE and call.outcome is OK


def test_a_history_of_leases_as_operations() -> None:
    def lease(who: str, asked: float, granted: float, until: float, fence: int) -> list[Event]:
        hold = f"{who}1"
        return [
            Event(asked, who, Kind.ASKED, "orders", hold),
            Event(granted, who, Kind.GRANTED, "orders", hold, fence, until),
        ]

    refused = [
        Event(0, "C", Kind.ASKED, "orders", "C1"),
        Event(9, "C", Kind.REFUSED, "orders", "C1"),
    ]
    released = Event(3, "A", Kind.RELEASING, "orders", "A1")
    history = History([*lease("A", 0, 1, 5, 7), released, *lease("B", 2, 4, 9, 8), *refused])
    assert check(operations(history), FENCED) == []
    history = History([*lease("A", 0, 1, 5, 7), *lease("B", 2, 4, 9, 8), *refused])
    assert [finding.who for finding in check(operations(history), FENCED)] == [("A1", "B1")]
