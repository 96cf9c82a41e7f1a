"""Renewal and loss, on virtual time."""

import gc

import pytest

from holdfast.core.acquire import acquire
from holdfast.core.effects import Ask
from holdfast.core.holding import extend
from holdfast.core.lease_state import LeaseState, State
from holdfast.core.messages import Break, Extend, Release
from holdfast.core.release import begin_release, finish_release
from holdfast.errors import EngineUnavailable, LockLost
from holdfast.events import RenewalFailed
from holdfast.lab.simulator.driver import Process
from tests.core.stage import TTL, Stage
from tests.equipment.virtual_node import VirtualClient, spec


def take(
    stage: Stage, client: VirtualClient, name: str = "job", ttl: float = TTL, **options: object
) -> LeaseState:
    asked = spec(name, ttl, **options)  # type: ignore[arg-type]
    taking = client.start(acquire(client.runtime, asked, client.runtime.new_holder(""), 0))
    stage.run(0.01)
    assert taking.result is not None
    return taking.result


def release(client: VirtualClient, lease: LeaseState) -> Process[None]:
    release = begin_release(client.runtime, lease)
    assert release
    return client.start(finish_release(client.runtime, lease, release))


def told_at(lease: LeaseState, stage: Stage) -> list[float]:
    """When the holder was told of its loss."""
    told: list[float] = []
    lease.callbacks = (lambda: told.append(stage.timeline.now),)
    return told


def test_a_lease_is_renewed_every_third_of_its_ttl() -> None:
    stage = Stage()
    lease = take(stage, stage.client())
    stage.run(10 * TTL)
    assert lease.is_held(stage.timeline.now)
    assert 28 <= len(stage.requests(Extend)) <= 34  # thirty, give or take the grid


def test_extensions_by_hand_add_no_renewals() -> None:
    stage = Stage()
    me = stage.client()
    lease = take(stage, me)
    for _ in range(5):
        me.start(extend(me.runtime, lease, 1.0))
        stage.run(0.1)
    stage.run(10 * TTL)
    assert 28 + 5 <= len(stage.requests(Extend)) <= 34 + 5


def test_without_renewal_it_is_lost_at_its_deadline_and_not_before() -> None:
    stage = Stage()
    lease = take(stage, stage.client(), renew=False)
    told = told_at(lease, stage)
    stage.run(3 * TTL)
    assert told == [lease.valid_until]
    assert lease.state is State.LOST


def test_a_dead_engine_means_loss_at_the_deadline_by_the_timer() -> None:
    stage = Stage()
    me = stage.client()
    lease = take(stage, me)
    told = told_at(lease, stage)
    stage.run(TTL)
    stage.node.up = False
    stage.run(lease.valid_until - stage.timeline.now - 0.001)
    assert not told
    assert lease.is_held(stage.timeline.now)
    assert any(isinstance(event, RenewalFailed) for event in me.events)
    stage.run(TTL)
    assert told == [lease.valid_until]


def test_a_passing_outage_costs_nothing() -> None:
    stage = Stage()
    lease = take(stage, stage.client())
    for _ in range(5):
        stage.node.up = False
        stage.run(TTL / 2)
        stage.node.up = True
        stage.run(TTL / 2)
    assert lease.is_held(stage.timeline.now)


def test_not_yours_is_a_loss_at_once() -> None:
    stage = Stage()
    lease = take(stage, stage.client())
    told = told_at(lease, stage)
    stage.node.execute((Break("job"),), lambda holder: None)
    stage.run(TTL / 3 + 0.1)
    assert len(told) == 1
    assert told[0] < lease.valid_until


def test_a_late_answer_does_not_bring_a_lost_lease_back() -> None:
    stage = Stage()
    lease = take(stage, stage.client())
    told = told_at(lease, stage)
    stage.network.latency = (0.3 * TTL, 0.3 * TTL)  # 0.6 there and back, the node timeout is 0.33
    stage.run(2 * TTL)
    assert told == [lease.valid_until]
    stage.network.latency = (0.001, 0.001)
    stage.run(2 * TTL)
    assert lease.state is State.LOST
    assert len(told) == 1


@pytest.mark.parametrize("pending", [False, True])
def test_nothing_that_the_renewer_waits_for_delays_the_loss_of_another(pending: bool) -> None:
    """Neither an unanswered renewal nor an unanswered release."""
    stage = Stage()
    me = stage.client()
    slow = take(stage, me, "slow", ttl=12.0)
    short = take(stage, me, "short", ttl=5.0, renew=False)
    gone = take(stage, me, "gone", ttl=12.0)
    told = told_at(short, stage)
    stage.run(3.9)
    stage.node.up = False  # the renewal at 4 waits for its node timeout, until 8
    if pending:
        release(me, gone)
    stage.run(4.5)
    assert told == [short.valid_until]
    stage.node.up = True
    stage.run(3)
    assert slow.is_held(stage.timeline.now)


def test_released_means_not_told_and_not_renewed() -> None:
    stage = Stage()
    me = stage.client()
    lease = take(stage, me)
    told = told_at(lease, stage)
    release(me, lease)
    stage.run(10 * TTL)
    assert not told
    assert not stage.requests(Extend)


def test_a_lease_that_is_out_of_reach_is_not_renewed() -> None:
    stage = Stage()
    me = stage.client()
    lease = take(stage, me)
    stage.run(TTL)
    renewals = len(stage.requests(Extend))
    assert renewals
    del lease
    gc.collect()
    stage.run(10 * TTL)
    assert len(stage.requests(Extend)) == renewals
    assert not stage.leftovers()


def test_max_hold_ends_the_lease_at_that_instant() -> None:
    stage = Stage()
    lease = take(stage, stage.client(), max_hold=2.5 * TTL)
    told = told_at(lease, stage)
    stage.run(2.4 * TTL)
    assert lease.is_held(stage.timeline.now)
    stage.run(TTL)
    assert told == [2.5 * TTL]
    assert "max_hold" in lease.why
    assert stage.leftovers() == []


def test_renewals_that_fall_due_together_go_out_together() -> None:
    stage = Stage()
    me = stage.client()
    leases = [take(stage, me, f"job{number}") for number in range(50)]  # within half a second
    asks = 0
    perform = me.perform

    def count_asks(effect: object, resume: object) -> None:
        nonlocal asks
        asks += isinstance(effect, Ask)
        perform(effect, resume)  # type: ignore[arg-type]

    me.perform = count_asks  # type: ignore[method-assign]
    stage.run(TTL)
    assert len(stage.requests(Extend)) >= 2 * len(leases)
    assert asks <= 8


def test_a_lost_lease_is_released_so_that_the_engine_does_not_keep_it() -> None:
    stage = Stage()
    me = stage.client()
    lease = take(stage, me)
    stage.network.latency = (0.3 * TTL, 0.3 * TTL)
    stage.run(lease.valid_until - stage.timeline.now + 0.1)
    assert lease.state is State.LOST
    stage.network.latency = (0.001, 0.001)
    stage.run(2.0)
    assert stage.requests(Release)
    assert not stage.leftovers()


class TestAnUndeliveredRelease:
    def test_it_is_tried_again_until_the_engine_confirms(self) -> None:
        stage = Stage()
        me = stage.client()
        lease = take(stage, me)
        stage.node.up = False
        releasing = release(me, lease)
        stage.run(TTL / 2)
        assert isinstance(releasing.error, EngineUnavailable)
        stage.node.up = True
        stage.run(2.0)  # the longest pause between two tries, and a timeout
        assert not stage.leftovers()
        assert stage.requests(Release)
        sent = len(stage.requests(Release))
        stage.run(TTL)
        assert len(stage.requests(Release)) == sent, "confirmed is confirmed"

    def test_it_is_not_tried_beyond_the_end_of_the_lease(self) -> None:
        stage = Stage()
        me = stage.client()
        lease = take(stage, me)
        stage.node.up = False
        release(me, lease)
        stage.run(2 * TTL)
        stage.node.up = True
        stage.run(2 * TTL)
        assert not stage.requests(Release)

    def test_meanwhile_other_leases_are_renewed(self) -> None:
        stage = Stage()
        me = stage.client()
        kept = take(stage, me, "kept", ttl=3.0)
        gone = take(stage, me, "gone", ttl=60.0)
        execute = stage.node.execute

        def ignore_releases(requests: object, notify: object) -> object:
            if any(isinstance(each, Release) for each in requests):  # type: ignore[attr-defined]
                raise ConnectionResetError  # the node carries out nothing and answers nothing
            return execute(requests, notify)  # type: ignore[arg-type]

        def arrive(requests: object, notify: object) -> object:
            try:
                return ignore_releases(requests, notify)
            except ConnectionResetError:
                stage.network.loss = 1.0  # so the answer is lost
                return []
            finally:
                stage.timeline.at(stage.timeline.now, lambda: setattr(stage.network, "loss", 0.0))

        stage.node.execute = arrive  # type: ignore[method-assign, assignment]
        release(me, gone)
        stage.run(30)
        assert kept.is_held(stage.timeline.now)


def test_a_lease_that_was_extended_by_hand_is_not_lost_at_its_old_deadline() -> None:
    stage = Stage()
    me = stage.client()
    lease = take(stage, me, renew=False)
    told = told_at(lease, stage)
    me.start(extend(me.runtime, lease, 5 * TTL))
    stage.run(4 * TTL)
    assert lease.is_held(stage.timeline.now)
    stage.run(2 * TTL)
    assert told == [lease.valid_until]
    late = me.start(extend(me.runtime, lease, TTL))
    assert isinstance(late.error, LockLost)
