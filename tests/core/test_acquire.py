"""Getting a lock, on virtual time: one test for each thing that can happen."""

import pytest

from holdfast.core.acquire import acquire
from holdfast.core.holding import release
from holdfast.core.messages import Acquire, HandedOver, Release
from holdfast.errors import EngineUnavailable
from holdfast.lab.virtual import CancelledError, VirtualClient, spec
from tests.core.stage import TTL, Stage


def held_by_another(stage: Stage, ttl: float = TTL) -> VirtualClient:
    other = stage.client("other")
    taking = other.start(acquire(other.runtime, spec("job", ttl), 0))
    stage.run(0.1)
    assert taking.result is not None
    return other


def test_a_free_lock_costs_one_request() -> None:
    stage = Stage()
    me = stage.client()
    taking = me.start(acquire(me.runtime, spec("job", TTL), None))
    stage.run(1)
    assert taking.result is not None
    assert taking.result.fence == 1
    assert taking.effects == 1
    assert len(stage.node.asked) == 1


def test_validity_counts_from_before_the_request_left() -> None:
    stage = Stage()
    stage.network.latency = (1.0, 1.0)
    me = stage.client()
    taking = me.start(acquire(me.runtime, spec("job", TTL), None))
    stage.run(2.5)
    assert taking.result is not None
    assert taking.result.valid_until == TTL  # asked at 0, granted at 1, heard at 2


def test_trying_once_leaves_nothing_and_does_not_wait() -> None:
    stage = Stage()
    held_by_another(stage)
    me = stage.client()
    trying = me.start(acquire(me.runtime, spec("job", TTL), 0))
    stage.run(1)
    assert trying.done
    assert trying.result is None
    assert not stage.requests(Release)


def test_a_release_wakes_the_waiter() -> None:
    stage = Stage()
    other = held_by_another(stage)
    me = stage.client()
    waiting = me.start(acquire(me.runtime, spec("job", TTL), None))
    stage.run(1)
    assert not waiting.done
    tenure = next(iter(other.runtime.schedule.held()))
    other.start(release(other.runtime, tenure))
    stage.run(0.1)
    assert waiting.result is not None
    assert waiting.result.fence == 2


def test_a_lost_wake_up_costs_time_but_not_life() -> None:
    stage = Stage()
    other = held_by_another(stage)
    me = stage.client()
    waiting = me.start(acquire(me.runtime, spec("job", TTL), None))
    stage.run(1)
    stage.node.bells = dict.fromkeys(stage.node.bells, lambda holder: None)
    tenure = next(iter(other.runtime.schedule.held()))
    other.start(release(other.runtime, tenure))
    stage.run(TTL)
    assert waiting.result is not None


def test_a_waiter_asks_no_more_often_than_the_holder_may_end() -> None:
    stage = Stage()
    held_by_another(stage)
    me = stage.client()
    me.start(acquire(me.runtime, spec("job", TTL), None))
    stage.run(100 * TTL)
    asked = [request for request in stage.requests(Acquire) if request.holder == "client1/1"]
    assert len(asked) <= 100 * 1.7  # the holder renews every third, so a look shows 2/3 to 1 ttl


def test_a_timeout_ends_the_wait_and_leaves_the_queue() -> None:
    stage = Stage()
    held_by_another(stage)
    me = stage.client()
    waiting = me.start(acquire(me.runtime, spec("job", TTL), 3.0))
    stage.run(2.9)
    assert stage.node.table.rows["job"].queue
    stage.run(0.2)
    assert waiting.done
    assert waiting.result is None
    assert not stage.node.table.rows["job"].queue
    assert waiting not in stage.leftovers()


def test_an_offer_that_meets_a_quitter_is_passed_on() -> None:
    stage = Stage()
    other = held_by_another(stage)
    first, second = stage.client(), stage.client()
    quitting = first.start(acquire(first.runtime, spec("job", TTL), None))
    stage.run(0.5)
    waiting = second.start(acquire(second.runtime, spec("job", TTL), None))
    stage.run(0.5)
    tenure = next(iter(other.runtime.schedule.held()))
    other.start(release(other.runtime, tenure))
    while stage.node.table.rows["job"].holder != "client1/1":  # until it is offered to the first
        stage.run(0.0001)
    quitting.cancel()
    stage.run(0.1)
    assert isinstance(quitting.error, CancelledError)
    assert waiting.result is not None


def test_a_stopped_waiter_holds_the_next_one_up_for_the_offer_only() -> None:
    stage = Stage()
    other = held_by_another(stage)
    stopped, second = stage.client(), stage.client()
    stopped.start(acquire(stopped.runtime, spec("job", TTL), None))
    stage.run(0.5)
    waiting = second.start(acquire(second.runtime, spec("job", TTL), None))
    stage.run(0.5)
    stopped.crash()
    tenure = next(iter(other.runtime.schedule.held()))
    other.start(release(other.runtime, tenure))
    stage.run(0.6)
    assert waiting.result is not None


def test_a_waiter_on_a_slow_line_has_time_to_take_what_it_is_offered() -> None:
    stage = Stage()
    other = held_by_another(stage)
    slow, second = stage.client("slow"), stage.client()
    first = slow.start(acquire(slow.runtime, spec("job", TTL), None))
    stage.run(0.5)
    waiting = second.start(acquire(second.runtime, spec("job", TTL), None))
    stage.run(0.5)
    tenure = next(iter(other.runtime.schedule.held()))
    other.start(release(other.runtime, tenure))
    stage.network.latency = (0.1, 0.1)
    stage.run(0.15)  # it is woken after 0.1, and what it says then takes as long
    stage.node.execute((Acquire("job", "newcomer", TTL),), lambda holder: None)
    stage.run(0.35)
    assert first.result is not None
    assert not waiting.done


def test_a_lost_reply_finds_its_own_grant_again() -> None:
    stage = Stage()
    me = stage.client()
    node_execute = stage.node.execute

    def swallow_first_reply(*args: object) -> object:
        answers = node_execute(*args)  # type: ignore[arg-type]
        if len(stage.node.asked) == 1:
            stage.network.loss = 1.0
            stage.timeline.at(stage.timeline.now + 0.01, lambda: setattr(stage.network, "loss", 0))
        return answers

    stage.node.execute = swallow_first_reply  # type: ignore[method-assign,assignment]
    taking = me.start(acquire(me.runtime, spec("job", TTL), None))
    stage.run(TTL)
    assert taking.result is not None
    assert taking.result.fence == 1
    assert taking.result.valid_until > TTL  # counted from the request that was answered


def test_a_grant_that_comes_too_late_is_not_taken() -> None:
    stage = Stage()
    stage.network.latency = (0.4 * TTL, 0.4 * TTL)
    me = stage.client()
    taking = me.start(acquire(me.runtime, spec("job", TTL), 0))
    stage.run(0.9 * TTL)
    assert isinstance(taking.error, EngineUnavailable)
    stage.run(5 * TTL)
    assert not stage.leftovers()


def test_trying_once_when_the_engine_is_down_raises_at_once() -> None:
    stage = Stage()
    stage.node.up = False
    me = stage.client()
    trying = me.start(acquire(me.runtime, spec("job", TTL), 0))
    stage.run(TTL)
    assert isinstance(trying.error, EngineUnavailable)
    assert trying.error.nodes == {"node": "no answer"}


def test_blocking_goes_on_until_the_timeout_and_raises_then() -> None:
    stage = Stage()
    stage.node.up = False
    me = stage.client()
    trying = me.start(acquire(me.runtime, spec("job", TTL), 25.0))
    stage.run(24.9)
    assert not trying.done
    stage.run(6)  # the last cleanup has its node timeout
    assert isinstance(trying.error, EngineUnavailable)


def test_blocking_survives_an_outage_that_ends() -> None:
    stage = Stage()
    stage.node.up = False
    me = stage.client()
    trying = me.start(acquire(me.runtime, spec("job", TTL), 25.0))
    stage.run(20)
    stage.node.up = True
    stage.run(5)
    assert trying.result is not None


def test_without_a_timeout_one_ttl_of_unbroken_failure_is_enough() -> None:
    stage = Stage()
    stage.node.up = False
    me = stage.client()
    trying = me.start(acquire(me.runtime, spec("job", TTL), None))
    stage.run(TTL - 0.1)
    assert not trying.done
    stage.run(TTL)
    assert isinstance(trying.error, EngineUnavailable)


@pytest.mark.parametrize("contended", [False, True])
@pytest.mark.parametrize("again", [False, True])
def test_cancelled_at_every_step_it_leaves_nothing(contended: bool, again: bool) -> None:
    """Cancel at the k-th instant at which anything happens, for every k; and once more after it."""
    steps = 0
    while True:
        stage = Stage()
        other = held_by_another(stage, ttl=2.0) if contended else None
        if other is not None:
            tenure = next(iter(other.runtime.schedule.held()))
            stage.timeline.at(1.0, lambda s=other, t=tenure: s.start(release(s.runtime, t)))  # type: ignore[misc]
        me = stage.client()
        taking = me.start(acquire(me.runtime, spec("job", TTL), None))
        for _ in range(steps):
            stage.timeline.run_one()
        finished = taking.done
        taking.cancel()
        if again:
            stage.timeline.run_one()
            taking.cancel()
        if finished:
            assert taking.result is not None
            break
        stage.run(1.5 if contended else 0.5)
        assert isinstance(taking.error, CancelledError), steps
        assert not stage.leftovers(), steps
        steps += 1
    assert steps > (6 if contended else 1)


def test_interrupted_while_tidying_up_it_tidies_up_again() -> None:
    """A timeout has passed, the place in the queue is being given back, and then comes a cancel."""
    stage = Stage()
    held_by_another(stage)
    me = stage.client()
    waiting = me.start(acquire(me.runtime, spec("job", TTL), 1.0))
    stage.run(0.5)
    sent = len(stage.node.asked)
    stage.network.loss = 1.0
    stage.run(0.501)  # the release is under way, and lost
    assert not waiting.done
    stage.network.loss = 0.0
    waiting.cancel()
    stage.run(0.1)
    assert isinstance(waiting.error, CancelledError)
    assert len(stage.node.asked) > sent
    assert not stage.node.table.rows["job"].queue


def test_an_engine_that_does_not_answer_is_not_waited_for_twice() -> None:
    stage = Stage()
    stage.node.up = False
    me = stage.client()
    trying = me.start(acquire(me.runtime, spec("job", TTL), 0.5))
    stage.run(0.7)
    assert isinstance(trying.error, EngineUnavailable)


@pytest.mark.parametrize("before", [True, False])
def test_a_virtual_client_is_told_what_was_handed_over_to_it(before: bool) -> None:
    stage = Stage()
    held_by_another(stage)
    me = stage.client()
    waiting = me.start(acquire(me.runtime, spec("job", TTL), None))
    while not (waiter_id := next((t for t in me.tickets if t != "renewer"), "")):
        stage.run(0.0001)
    if before:  # it is told before it waits, and rung for once more
        me.notify(waiter_id, HandedOver(9, 1))
        me.notify(waiter_id)
        stage.run(0.1)
    else:
        stage.run(0.1)
        me.notify(waiter_id, HandedOver(9, 1))
    assert waiting.result is not None
    assert waiting.result.fence == 9
