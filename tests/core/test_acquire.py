"""Getting a lock, on virtual time: one test for each thing that can happen."""

from typing import Any

import pytest

from holdfast.core.acquire import acquire
from holdfast.core.lease_state import LeaseState
from holdfast.core.messages import Acquire
from holdfast.core.release import begin_release, finish_release
from holdfast.errors import EngineUnavailable
from holdfast.lab.simulator.driver import CancelledError, Process
from tests.core.stage import TTL, Stage
from tests.equipment.virtual_node import VirtualClient, spec


def begin(
    client: VirtualClient, timeout: float | None, ttl: float = TTL
) -> Process[LeaseState | None]:
    runtime = client.runtime
    return client.start(acquire(runtime, spec("job", ttl), runtime.new_holder(""), timeout))


def release(client: VirtualClient, lease: LeaseState) -> None:
    release = begin_release(client.runtime, lease)
    assert release
    client.start(finish_release(client.runtime, lease, release))


class Other:
    """Another client, which holds the lock."""

    def __init__(self, stage: Stage, ttl: float = TTL) -> None:
        self.client = stage.client("other")
        taking = begin(self.client, 0, ttl)
        stage.run(0.1)
        assert taking.result is not None
        self.lease = taking.result

    def release(self) -> None:
        release(self.client, self.lease)


def test_a_free_lock_costs_one_request() -> None:
    stage = Stage()
    taking = begin(stage.client(), None)
    stage.run(1)
    assert taking.result is not None
    assert taking.result.fence == 1
    assert taking.effects == 1
    assert len(stage.node.asked) == 1


def test_a_release_wakes_the_waiter() -> None:
    stage = Stage()
    other = Other(stage)
    waiting = begin(stage.client(), None)
    stage.run(1)
    assert not waiting.done
    other.release()
    stage.run(0.1)
    assert waiting.result is not None
    assert waiting.result.fence == 2


def test_a_lost_wake_up_costs_time_but_not_life() -> None:
    stage = Stage()
    other = Other(stage)
    waiting = begin(stage.client(), None)
    stage.run(1)
    stage.node.bells = dict.fromkeys(stage.node.bells, lambda holder: None)
    other.release()
    stage.run(TTL)
    assert waiting.result is not None


def test_a_waiter_asks_no_more_often_than_the_holder_may_end() -> None:
    stage = Stage()
    _other = Other(stage)
    begin(stage.client(), None)
    stage.run(100 * TTL)
    asked = [request for request in stage.requests(Acquire) if request.holder == "client1/1"]
    assert len(asked) <= 100 * 1.7  # the holder renews every third, so a look shows 2/3 to 1 ttl


def test_an_offer_to_a_waiter_that_is_cancelled_is_passed_on() -> None:
    stage = Stage()
    other = Other(stage)
    quitting = begin(stage.client(), None)
    stage.run(0.5)
    waiting = begin(stage.client(), None)
    stage.run(0.5)
    other.release()
    while (
        "client1/1" not in stage.node.table.rows["job"].holders
    ):  # until it is offered to the first
        stage.run(0.0001)
    quitting.cancel()
    stage.run(0.1)
    assert isinstance(quitting.error, CancelledError)
    assert waiting.result is not None


def test_a_stopped_waiter_holds_the_next_one_up_for_the_offer_only() -> None:
    stage = Stage()
    other = Other(stage)
    stopped = stage.client()
    begin(stopped, None)
    stage.run(0.5)
    waiting = begin(stage.client(), None)
    stage.run(0.5)
    stopped.crash()
    other.release()
    stage.run(0.6)
    assert waiting.result is not None


def test_a_waiter_on_a_slow_line_has_time_to_take_what_it_is_offered() -> None:
    stage = Stage()
    other = Other(stage)
    first = begin(stage.client("slow"), None)
    stage.run(0.5)
    waiting = begin(stage.client(), None)
    stage.run(0.5)
    other.release()
    stage.network.latency = (0.1, 0.1)
    stage.run(0.15)  # it is woken after 0.1, and its next request takes as long
    stage.node.execute((Acquire("job", "newcomer", TTL),), lambda holder: None)
    stage.run(0.35)
    assert first.result is not None
    assert not waiting.done


def test_a_lost_reply_finds_its_own_grant_again() -> None:
    stage = Stage()
    node_execute = stage.node.execute

    def swallow_first_reply(*args: Any) -> Any:
        answers = node_execute(*args)
        if len(stage.node.asked) == 1:
            stage.network.loss = 1.0
            stage.timeline.at(stage.timeline.now + 0.01, lambda: setattr(stage.network, "loss", 0))
        return answers

    stage.node.execute = swallow_first_reply  # type: ignore[method-assign, assignment]
    taking = begin(stage.client(), None)
    stage.run(TTL)
    assert taking.result is not None
    assert taking.result.fence == 1
    assert taking.result.valid_until > TTL  # counted from the request that was answered


def test_a_grant_that_comes_too_late_is_not_taken() -> None:
    stage = Stage()
    stage.network.latency = (0.4 * TTL, 0.4 * TTL)
    taking = begin(stage.client(), 0)
    stage.run(0.9 * TTL)
    assert isinstance(taking.error, EngineUnavailable)
    stage.run(5 * TTL)
    assert not stage.leftovers()


@pytest.mark.parametrize("contended", [False, True])
def test_cancelled_at_every_step_it_leaves_nothing(contended: bool) -> None:
    """Cancel at the k-th instant at which anything happens, for every k."""
    steps = 0
    while True:
        stage = Stage()
        if contended:
            other = Other(stage, ttl=2.0)
            stage.timeline.at(1.0, other.release)
        taking = begin(stage.client(), None)
        for _ in range(steps):
            stage.timeline.run_one()
        finished = taking.done
        taking.cancel()
        if finished:
            assert taking.result is not None
            break
        stage.run(1.5 if contended else 0.5)
        assert isinstance(taking.error, CancelledError), steps
        assert not stage.leftovers(), steps
        steps += 1
    assert steps > (6 if contended else 1)


def test_what_an_interrupted_acquire_left_is_released_after_an_outage() -> None:
    stage = Stage()
    _other = Other(stage)
    waiting = begin(stage.client(), None)
    stage.run(0.5)
    stage.node.up = False
    waiting.cancel()
    stage.run(TTL / 2)
    assert stage.node.table.rows["job"].queue
    stage.node.up = True
    stage.run(2.0)  # the longest pause between two tries, and a timeout
    assert not stage.node.table.rows["job"].queue
