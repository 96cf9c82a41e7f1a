"""Locks over a quorum of nodes that freeze, restart and forget, on virtual time."""

from collections.abc import Callable

import pytest

from holdfast.core.fanout import FanOut
from holdfast.core.lease_state import HELD, LOST, TAKEN, LeaseState
from holdfast.core.messages import Acquire, Granted, Raise, Release, Repair
from holdfast.engines.redis import quorum_node_timeout
from holdfast.errors import EngineUnavailable
from holdfast.lab.simulator.driver import CancelledError
from tests.core.quorum_stage import LONGEST, TTL, QuorumClient, QuorumStage, spec, take
from tests.core.stage import acquire, increasing, release

PATIENCE = quorum_node_timeout(TTL)


def give_back(stage: QuorumStage, client: QuorumClient, tenure: LeaseState) -> None:
    giving = client.start(release(client.runtime, tenure))
    stage.run(0.1)
    assert giving.done
    assert giving.error is None


def kinds(polls: list[FanOut]) -> list[type]:
    return [type(poll.requests[0]) for poll in polls]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7])
def test_a_free_lock_costs_one_round_and_so_does_giving_it_back(count: int) -> None:
    stage = QuorumStage(count)
    me = stage.client()
    tenure = take(stage, me)
    assert stage.holders() == [tenure.holder] * count
    give_back(stage, me, tenure)
    assert kinds(me.polls) == [Acquire, Release]
    assert not stage.leftovers()


@pytest.mark.parametrize("count", [3, 4, 5, 7])
def test_a_minority_that_is_down_is_not_missed(count: int) -> None:
    stage = QuorumStage(count)
    for node in stage.nodes[: (count - 1) // 2]:
        node.up = False
    me = stage.client()
    tenure = take(stage, me)
    stage.run(10 * TTL)
    assert tenure.state is HELD
    give_back(stage, me, tenure)
    assert not stage.leftovers()


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_without_a_majority_there_is_no_lock_and_all_nodes_are_named(count: int) -> None:
    stage = QuorumStage(count)
    down = stage.nodes[: count - count // 2]
    for node in down:
        node.up = False
    me = stage.client()
    trying = me.start(acquire(me.runtime, spec(), 0))
    stage.run(1)
    assert isinstance(trying.error, EngineUnavailable)
    assert trying.error.nodes == {
        node.name: "refused" if node in down else "granted" for node in stage.nodes
    }
    assert not stage.leftovers()


class TestFrozenNodes:
    def test_one_costs_a_free_lock_nothing(self) -> None:
        stage = QuorumStage(3)
        stage.nodes[0].freeze()
        me = stage.client()
        me.start(acquire(me.runtime, spec(), 0))
        stage.run(PATIENCE / 2)
        assert min(lease.valid_until for lease in me.runtime.registry.held()) < 2 * TTL

    def test_its_late_grant_is_part_of_the_lease_and_goes_with_it(self) -> None:
        stage = QuorumStage(3)
        stage.nodes[0].freeze()
        me = stage.client()
        tenure = take(stage, me)
        stage.nodes[0].thaw()
        assert stage.holders() == [tenure.holder] * 3
        give_back(stage, me, tenure)
        assert not stage.leftovers()

    def test_its_late_grant_does_not_outlive_the_lease(self) -> None:
        stage = QuorumStage(3)
        stage.nodes[0].freeze()
        me = stage.client()
        give_back(stage, me, take(stage, me))
        stage.nodes[0].thaw()
        assert stage.nodes[0].asked
        assert not stage.leftovers()

    def test_the_late_grants_of_a_failed_attempt_do_not_outlive_it(self) -> None:
        stage = QuorumStage(3)
        stage.nodes[0].freeze()
        stage.nodes[1].freeze()
        me = stage.client()
        trying = me.start(acquire(me.runtime, spec(), 0))
        stage.run(1)
        assert isinstance(trying.error, EngineUnavailable)
        for node in stage.nodes[:2]:
            node.thaw()
            assert [type(request) for request in node.asked][:2] == [Acquire, Release]
        assert not stage.leftovers()

    def test_the_late_grants_of_a_cancelled_attempt_do_not_outlive_it(self) -> None:
        stage = QuorumStage(3)
        stage.nodes[0].freeze()
        stage.nodes[1].freeze()
        me = stage.client()
        trying = me.start(acquire(me.runtime, spec(), 0))
        stage.run(PATIENCE / 2)
        trying.cancel()
        stage.run(1)
        assert isinstance(trying.error, CancelledError)
        for node in stage.nodes[:2]:
            node.thaw()
        assert not stage.leftovers()


class TestSplitVotes:
    def first_come(self, stage: QuorumStage, *clients: QuorumClient) -> None:
        """Let each client's first request arrive first at another node."""
        for number, client in enumerate(clients):
            for index, link in enumerate(client._there):
                link._last_arrival = 0.0001 if index == number else 0.0002
        stage.network.latency = (0.0, 0.0)

    @pytest.mark.parametrize("count", [2, 3, 4])
    def test_all_let_go_at_once_and_a_draw_decides(self, count: int) -> None:
        for seed in range(50):
            stage = QuorumStage(count, seed)
            rivals = [stage.client() for _ in range(count)]
            self.first_come(stage, *rivals)
            taking = [rival.start(acquire(rival.runtime, spec(), None)) for rival in rivals]
            stage.run(0.0002)
            for rival in rivals:
                vote, farewell = rival.polls[:2]
                assert [type(a[0]) for a in vote.answers.values()].count(Granted) == 1
                assert type(farewell.requests[0]) is Release
            stage.network.latency = (0.0005, 0.001)
            stage.run(TTL / 4)  # far less than what a ghost of a vote would last
            winners = [process for process in taking if process.done]
            assert len(winners) == 1, seed
            assert winners[0].result is not None

    @pytest.mark.parametrize("upset", ["", "down", "frozen", "quarantine"])
    @pytest.mark.parametrize("count", [3, 4, 5])
    def test_of_six_that_try_once_exactly_one_gets_it(self, count: int, upset: str) -> None:
        splits = 0
        for seed in range(40):
            stage = QuorumStage(count, seed)
            node = stage.nodes[seed % count]
            node.up = upset != "down"
            node.frozen = upset == "frozen"
            if upset == "quarantine":
                node.restart(keep=False)
            rivals = [stage.client() for _ in range(6)]
            trying = [rival.start(acquire(rival.runtime, spec(), 0)) for rival in rivals]
            stage.run(TTL)
            assert not [each.error for each in trying if each.error], seed
            assert len([each for each in trying if each.result is not None]) == 1, seed
            splits += any("#" in name for name in stage.holders())
        assert splits, "no vote was split, so nothing was shown"

    def test_a_vote_that_was_too_slow_is_repeated_once_and_not_held_against_the_engine(
        self,
    ) -> None:
        """As on connections that are being made: all nodes grant, but later than they should."""
        stage = QuorumStage(4)
        stage.nodes[3].freeze()
        stage.network.latency = (0.6 * PATIENCE, 0.8 * PATIENCE)
        me = stage.client()
        trying = me.start(acquire(me.runtime, spec(), 0))
        stage.run(1)
        assert trying.result is not None, trying.error

    def test_a_lease_with_a_silent_node_is_recognised_after_two_votes(self) -> None:
        stage = QuorumStage(3)
        stage.nodes[0].up = False
        take(stage, stage.client())
        stage.nodes[0].up, stage.nodes[1].up = True, False
        me = stage.client()
        trying = me.start(acquire(me.runtime, spec(), 0))
        stage.run(TTL / 4)
        assert (trying.done, trying.result, trying.error) == (True, None, None)
        assert kinds(me.polls).count(Acquire) == 2

    def test_many_get_it_one_after_the_other(self) -> None:
        for seed in range(20):
            stage = QuorumStage(5, seed)
            fences: list[int] = []
            for _ in range(8):
                client = stage.client()

                def work(client: QuorumClient = client, fences: list[int] = fences):  # type: ignore[no-untyped-def]
                    tenure = yield from acquire(client.runtime, spec(), None)
                    assert tenure is not None
                    fences.append(tenure.fence)
                    yield from release(client.runtime, tenure)

                client.start(work())
            stage.run(2 * TTL)
            assert len(fences) == 8, seed
            assert increasing(fences)
            stage.run(2 * TTL)
            assert not stage.leftovers()


class TestFences:
    def test_counters_that_differ_cost_a_second_round(self) -> None:
        stage = QuorumStage(3)
        ahead = stage.client("ahead", skew=30.0)
        stage.nodes[2].up = False
        first = take(stage, ahead)
        give_back(stage, ahead, first)
        stage.nodes[2].up = True
        stage.nodes[0].up = False
        me = stage.client()
        second = take(stage, me)
        assert second.fence == first.fence + 1
        assert kinds(me.polls) == [Acquire, Raise]
        rows = [node.votes.rows["job"] for node in stage.nodes[1:]]
        assert [row.counter for row in rows] == [second.fence] * 2

    def test_a_clock_far_ahead_is_brought_back_by_the_nodes(self) -> None:
        stage = QuorumStage(3)
        dreamer, me = stage.client(skew=1e6), stage.client()
        tenure = take(stage, dreamer)
        assert tenure.fence <= (1_700_000_000 + 61) * 1_000_000
        give_back(stage, dreamer, tenure)
        assert take(stage, me).fence > tenure.fence


class TestForgetting:
    @pytest.mark.parametrize("guarded", [True, False])
    def test_a_minority_that_restarts_empty_is_told_again(self, guarded: bool) -> None:
        stage = QuorumStage(3, guarded=guarded)
        me = stage.client()
        tenure = take(stage, me)
        stage.nodes[1].restart(keep=False)
        assert stage.holders()[1] == ""
        stage.run(TTL / 3)
        assert stage.holders() == [tenure.holder] * 3
        assert stage.nodes[1].votes.rows["job"].counter == tenure.fence
        assert kinds(me.polls).count(Repair) == 1
        # In quarantine it is no help when another one is gone.
        stage.nodes[0].up = False
        stage.run(TTL)
        assert tenure.state is (LOST if guarded else HELD)

    def test_a_majority_that_restarts_empty_is_a_loss(self) -> None:
        stage = QuorumStage(3)
        me = stage.client()
        tenure = take(stage, me)
        stage.nodes[1].restart(keep=False)
        stage.nodes[2].restart(keep=False)
        stage.run(TTL / 2)
        assert (tenure.state, tenure.why) == (LOST, TAKEN)
        assert stage.holders()[1:] == ["", ""]

    @pytest.mark.parametrize("guarded", [True, False])
    def test_a_node_that_forgot_does_not_vote_twice(self, guarded: bool) -> None:
        stage = QuorumStage(3, guarded=guarded)
        me, rival = stage.client(), stage.client()
        stage.nodes[0].up = False
        take(stage, me, renew=False)
        stage.nodes[0].up = True
        stage.nodes[1].restart(keep=False)
        trying = rival.start(acquire(rival.runtime, spec(), 0))
        stage.run(0.2)
        assert trying.done
        # Without the guard it does: that is what the guard is for.
        assert (trying.result is None) is guarded

    def test_fresh_nodes_are_not_asked_until_nothing_they_forgot_can_be_valid(self) -> None:
        stage = QuorumStage(3)
        me = stage.client()
        for node in stage.nodes[:2]:
            node.restart(keep=False)
        trying = me.start(acquire(me.runtime, spec(), 0))
        stage.run(0.2)
        assert isinstance(trying.error, EngineUnavailable)
        assert ", in 2.0 s (see" in trying.error.nodes["n0"]
        assert trying.error.nodes["n2"] == "granted"
        assert not stage.leftovers()
        waiting = me.start(acquire(me.runtime, spec(), 10.0))
        stage.run(LONGEST - 0.3)
        assert not waiting.done
        stage.run(2.0)
        assert waiting.result is not None

    def test_a_fresh_minority_costs_the_first_try_nothing(self) -> None:
        for seed in range(20):  # whichever node answers first
            stage = QuorumStage(3, seed)
            stage.nodes[0].restart(keep=False)
            me = stage.client()
            assert take(stage, me).fence
            assert kinds(me.polls) == [Acquire]


@pytest.mark.parametrize("upset", [None, "frozen", "split", "held"])
@pytest.mark.parametrize("again", [False, True])
def test_cancelled_at_every_step_it_leaves_nothing(upset: str | None, again: bool) -> None:
    """Cancel at the k-th instant at which anything happens, for every k; and once more after it."""
    steps = 0
    while True:
        stage = QuorumStage(3)
        prepare(stage, upset)
        me = stage.client("me")
        taking = me.start(acquire(me.runtime, spec(), None))
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
        stage.run(0.5)
        for node in stage.nodes:
            node.thaw()
        stage.run(0.5)
        assert isinstance(taking.error, CancelledError), steps
        assert not [left for left in stage.leftovers() if "me" in str(left)], steps
        steps += 1
    assert steps > 4


def prepare(stage: QuorumStage, upset: str | None) -> None:
    upsets: dict[str, Callable[[], object]] = {
        "frozen": lambda: stage.nodes[0].freeze(),
        "split": lambda: stage.nodes[0].execute([Acquire("job", "x", 0.05)], stage.client("x")),
        "held": lambda: take(stage, stage.client("other"), renew=False),
    }
    if upset:
        upsets[upset]()
    if upset == "split":
        stage.nodes[1].execute([Acquire("job", "y", 0.05)], stage.client("y"))
