"""Renewal and loss, on virtual time."""

import gc
from typing import ClassVar

import pytest

from holdfast.core.acquire import acquire
from holdfast.core.holding import extend, give_back, release
from holdfast.core.lease_state import LeaseState, State
from holdfast.core.messages import DONE, NOT_YOURS, Break, Extend, Failed
from holdfast.errors import EngineUnavailable, LockLost, NotHeld
from holdfast.events import Lost, ReleaseFailed, RenewalFailed
from holdfast.lab.virtual import VirtualClient, spec
from tests.core.stage import TTL, Stage


def take(
    stage: Stage, client: VirtualClient, name: str = "job", ttl: float = TTL, **options: object
) -> LeaseState:
    taking = client.start(acquire(client.runtime, spec(name, ttl, **options), 0))  # type: ignore[arg-type]
    stage.run(0.01)
    assert taking.result is not None
    return taking.result


def watched(tenure: LeaseState, stage: Stage) -> list[float]:
    told: list[float] = []
    tenure.watchers = (lambda: told.append(stage.timeline.now),)
    return told


def test_a_lease_is_renewed_every_third_of_its_ttl() -> None:
    stage = Stage()
    tenure = take(stage, stage.client())
    stage.run(10 * TTL)
    assert tenure.is_held(stage.timeline.now)
    assert 28 <= len(stage.requests(Extend)) <= 34  # thirty, give or take the grid


def test_without_renewal_it_is_lost_at_its_deadline_and_not_before() -> None:
    stage = Stage()
    tenure = take(stage, stage.client(), renew=False)
    told = watched(tenure, stage)
    stage.run(3 * TTL)
    assert told == [tenure.valid_until]
    assert tenure.state is State.LOST


def test_a_dead_engine_means_loss_at_the_deadline_by_the_timer() -> None:
    stage = Stage()
    me = stage.client()
    tenure = take(stage, me)
    told = watched(tenure, stage)
    stage.run(TTL)
    stage.node.up = False
    deadline = tenure.valid_until
    stage.run(deadline - stage.timeline.now - 0.001)
    assert not told
    assert tenure.is_held(stage.timeline.now)
    assert any(isinstance(event, RenewalFailed) for event in me.events)
    stage.run(TTL)
    assert told == [tenure.valid_until]


def test_a_passing_outage_costs_nothing() -> None:
    stage = Stage()
    tenure = take(stage, stage.client())
    for _ in range(5):
        stage.node.up = False
        stage.run(TTL / 2)
        stage.node.up = True
        stage.run(TTL / 2)
    assert tenure.is_held(stage.timeline.now)


def test_not_yours_is_a_loss_at_once() -> None:
    stage = Stage()
    me = stage.client()
    tenure = take(stage, me)
    told = watched(tenure, stage)
    stage.node.execute((Break("job"),), lambda holder: None)
    stage.run(TTL / 3 + 0.1)
    assert len(told) == 1
    assert told[0] < tenure.valid_until
    assert [event for event in me.events if isinstance(event, Lost)]


def test_a_late_answer_does_not_bring_a_lost_lease_back() -> None:
    stage = Stage()
    me = stage.client()
    tenure = take(stage, me)
    told = watched(tenure, stage)
    stage.network.latency = (0.3 * TTL, 0.3 * TTL)  # 0.6 there and back, the node timeout is 0.33
    stage.run(2 * TTL)
    assert len(told) == 1
    assert told[0] == tenure.valid_until
    stage.network.latency = (0.001, 0.001)
    stage.run(2 * TTL)
    assert tenure.state is State.LOST
    assert len(told) == 1


def test_a_slow_answer_for_one_does_not_delay_the_loss_of_another() -> None:
    stage = Stage()
    me = stage.client()
    slow = take(stage, me, "slow", ttl=12.0)
    short = take(stage, me, "short", ttl=5.0, renew=False)
    told = watched(short, stage)
    stage.run(3.9)
    stage.node.up = False  # the renewal of `slow` at 4 waits for its node timeout, until 8
    stage.run(4.5)
    assert told == [short.valid_until]
    stage.node.up = True
    stage.run(3)
    assert slow.is_held(stage.timeline.now)


def test_released_means_not_told_and_not_renewed() -> None:
    stage = Stage()
    me = stage.client()
    tenure = take(stage, me)
    told = watched(tenure, stage)
    me.start(release(me.runtime, tenure))
    stage.run(10 * TTL)
    assert not told
    assert not stage.requests(Extend)


def test_an_abandoned_lease_is_not_renewed() -> None:
    stage = Stage()
    me = stage.client()
    tenure = take(stage, me)
    stage.run(TTL)
    renewals = len(stage.requests(Extend))
    assert renewals
    me.processes[:] = [process for process in me.processes if process is me.renewer]
    del tenure
    gc.collect()
    stage.run(10 * TTL)
    assert len(stage.requests(Extend)) == renewals
    assert not stage.leftovers()


def test_max_hold_ends_the_lease_at_that_instant() -> None:
    stage = Stage()
    tenure = take(stage, stage.client(), max_hold=2.5 * TTL)
    told = watched(tenure, stage)
    stage.run(2.4 * TTL)
    assert tenure.is_held(stage.timeline.now)
    stage.run(TTL)
    assert told == [2.5 * TTL]
    assert not stage.node.table.rows["job"].is_held(stage.timeline.now)


def test_an_extension_does_not_go_beyond_max_hold() -> None:
    stage = Stage()
    me = stage.client()
    tenure = take(stage, me, max_hold=2 * TTL)
    me.start(extend(me.runtime, tenure, 10 * TTL))
    stage.run(1)
    assert tenure.valid_until <= 2 * TTL
    assert stage.node.table.rows["job"].ends_at <= 2 * TTL + 0.1


def test_renewals_that_fall_due_together_go_out_together() -> None:
    stage = Stage()
    me = stage.client()
    tenures = [take(stage, me, f"job{number}") for number in range(50)]  # within half a second
    asks = 0
    perform = me.perform

    def count_asks(effect: object, resume: object) -> None:
        nonlocal asks
        asks += type(effect).__name__ == "Ask"
        perform(effect, resume)  # type: ignore[arg-type]

    me.perform = count_asks  # type: ignore[method-assign]
    stage.run(TTL)
    assert len(stage.requests(Extend)) >= 2 * len(tenures)
    assert asks <= 8


def test_the_schedule_does_not_keep_what_was_released() -> None:
    stage = Stage()
    me = stage.client()
    for number in range(1000):
        tenure = take(stage, me, f"job{number}", ttl=1000.0)
        me.start(release(me.runtime, tenure))
        stage.run(0.01)
    assert len(me.runtime.schedule._heap) < 200


def test_an_extension_never_shortens() -> None:
    stage = Stage()
    me = stage.client()
    tenure = take(stage, me, renew=False)
    before = tenure.valid_until
    extending = me.start(extend(me.runtime, tenure, 1.0))
    stage.run(0.01)
    assert extending.done
    assert extending.error is None
    assert tenure.valid_until == before
    assert stage.node.table.rows["job"].ends_at >= before
    me.start(extend(me.runtime, tenure, 5 * TTL))
    stage.run(0.01)
    assert tenure.valid_until > 4 * TTL


def test_extending_after_the_end_raises_and_changes_nothing() -> None:
    stage = Stage()
    me = stage.client()
    tenure = take(stage, me, renew=False)
    stage.run(TTL + 1)
    extending = me.start(extend(me.runtime, tenure, TTL))
    stage.run(1)
    assert isinstance(extending.error, LockLost)
    assert not stage.requests(Extend)


def test_a_second_release_raises_not_held_and_one_after_a_loss_lock_lost() -> None:
    stage = Stage()
    me = stage.client()
    tenure = take(stage, me)
    me.start(release(me.runtime, tenure))
    stage.run(0.1)
    again = me.start(release(me.runtime, tenure))
    assert type(again.error) is NotHeld
    lost = take(stage, me, renew=False)
    stage.run(TTL + 1)
    late = me.start(release(me.runtime, lost))
    stage.run(0.1)
    assert isinstance(late.error, LockLost)


def test_a_release_whose_reply_is_lost_says_so_and_ends_with_the_ttl() -> None:
    stage = Stage()
    me = stage.client()
    tenure = take(stage, me)
    stage.network.loss = 1.0
    releasing = me.start(release(me.runtime, tenure))
    stage.run(4)
    assert "engine could not be told" in str(releasing.error)
    stage.network.loss = 0.0
    stage.run(TTL)
    assert not stage.leftovers()
    assert not stage.requests(Extend)


class TestALostConnection:
    """The engine fails at once, long before its time is over: it may have heard, or not."""

    BROKEN: ClassVar = [Failed.at("node", "the connection was closed")]

    def test_a_release_is_told_once_more(self) -> None:
        stage = Stage()
        me = stage.client()
        for second in ([DONE], [NOT_YOURS]):  # it did not arrive, or it did
            steps = release(me.runtime, take(stage, me, f"job {second}"))
            first = next(steps)
            assert steps.send(self.BROKEN) == first
            with pytest.raises(StopIteration):
                steps.send(second)

    def test_but_not_for_ever(self) -> None:
        stage = Stage()
        me = stage.client()
        steps = release(me.runtime, take(stage, me))
        next(steps)
        steps.send(self.BROKEN)
        with pytest.raises(EngineUnavailable, match="could not be told"):
            steps.send(self.BROKEN)

    def test_so_is_what_a_failed_acquire_may_have_left(self) -> None:
        stage = Stage()
        me = stage.client()
        steps = give_back(me.runtime, spec("job", TTL), "me", 1.0)
        first = next(steps)
        assert steps.send(self.BROKEN) == first
        with pytest.raises(StopIteration):
            steps.send(self.BROKEN)
        assert [type(event) for event in me.events] == [ReleaseFailed]
