"""What an operator does to locks over a quorum, on virtual time."""

from holdfast.core.holding import extend
from holdfast.core.lease_state import LOST, TAKEN
from holdfast.core.messages import Acquire, Release
from holdfast.core.queries import PAGE, break_lock, inspect, page
from holdfast.errors import LockLost
from tests.core.quorum_stage import TTL, QuorumStage, take


class TestOperators:
    def test_a_broken_lock_is_lost_at_the_next_renewal_and_does_not_come_back(self) -> None:
        stage = QuorumStage(3)
        me, operator = stage.client(), stage.client()
        tenure = take(stage, me)
        breaking = operator.start(break_lock(operator.runtime, "", "job"))
        stage.run(0.1)
        assert breaking.result is True
        assert stage.holders() == ["", "", ""]
        stage.run(TTL)
        assert (tenure.state, tenure.why) == (LOST, TAKEN)
        assert not stage.leftovers()

    def test_a_holder_that_extends_a_broken_lock_is_told(self) -> None:
        stage = QuorumStage(5)
        me, operator = stage.client(), stage.client()
        tenure = take(stage, me, renew=False)
        stage.nodes[0].freeze()
        operator.start(break_lock(operator.runtime, "", "job"))
        stage.run(0.1)
        extending = me.start(extend(me.runtime, tenure, TTL))
        stage.run(0.1)
        assert isinstance(extending.error, LockLost)

    def test_the_fence_is_that_of_the_lease_though_a_rival_got_a_node_that_had_no_grant(
        self,
    ) -> None:
        stage = QuorumStage(3)
        me, rival, operator = stage.client(), stage.client(), stage.client()
        tenure = take(stage, me, renew=False)
        late = stage.nodes[2]
        late.votes = type(late.votes)()
        late.execute([Acquire("job", "rival", TTL, proposed=tenure.fence + 1000)], rival)
        late.execute([Release("job", "rival")], rival)
        me.start(extend(me.runtime, tenure, TTL))  # repairs it
        stage.run(0.1)
        assert late.holder() == tenure.holder
        found = operator.start(inspect(operator.runtime, "", "job"))
        stage.run(0.1)
        assert found.result is not None
        assert found.result.fence == tenure.fence

    def test_listing_goes_through_nodes_that_know_more_than_a_page_and_differ(self) -> None:
        stage = QuorumStage(3)
        me = stage.client()
        for index, node in enumerate(stage.nodes):
            node.execute([Acquire(f"j{i:04}", "them", 1000.0) for i in range(PAGE + 50)], me)
            lone = range(300 * index, 300 * index + 700)
            node.execute([Acquire(f"a{i:04}", f"x{index}", 1000.0) for i in lone], me)
        names: list[str] = []
        while True:
            looking = me.start(page(me.runtime, "", "", names[-1] if names else ""))
            stage.run(0.1)
            assert looking.result is not None, looking.error
            if not looking.result:
                break
            names += [info.name for info in looking.result]
        assert names == [f"j{i:04}" for i in range(PAGE + 50)]
        found = me.start(inspect(me.runtime, "", "j0001"))
        stage.run(0.1)
        assert found.result is not None
        assert found.result.holder == "them"
        split = me.start(inspect(me.runtime, "", "a0300"))
        stage.run(0.1)
        assert split.done
        assert split.result is None
