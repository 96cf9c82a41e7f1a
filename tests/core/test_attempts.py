"""Each try for a lock of a quorum has a ballot, so that what undoes one does not undo the next."""

from holdfast.core.effects import Ask
from holdfast.core.messages import DONE, Acquire, Failed, Granted, Held, Raise, Release
from tests.core.hand import BROKEN, Hand, spec
from tests.core.quorum_stage import QuorumStage, Talk, quorum_of
from tests.core.quorum_stage import spec as claim_of_quorum
from tests.core.stage import acquire

AGAIN = Acquire("job", "me", 2.0, tries=2)


class TestTries:
    def test_each_says_how_many_came_before_it(self) -> None:
        hand = Hand()
        play = hand.play(acquire(hand.runtime, spec(), None))
        told: list[int] = []
        for answer in (BROKEN, Held(1.0, wakes=True), BROKEN, Granted(7)):
            while not isinstance(play.effect, Ask):
                play.goes_on()
            [asked] = play.effect.requests
            assert isinstance(asked, Acquire)
            assert asked.holder == "me"
            told.append(asked.tries)
            play.hears(answer)
        assert told == [0, 1, 2, 3]
        assert play.result.holder == "me"

    def test_a_lease_has_the_name_in_which_it_was_granted(self) -> None:
        hand = Hand()
        lease = hand.play(acquire(hand.runtime, spec(), None)).hears(Granted(7, "me#2")).result
        assert lease.holder == "me#2"

    def test_what_comes_to_nothing_is_given_back_by_the_holders_own_name(self) -> None:
        hand = Hand()
        play = hand.play(acquire(hand.runtime, spec(), 0)).hears(BROKEN)
        assert isinstance(play.effect, Ask)
        assert play.effect.requests == (Release("p:job", "me"),)


class TestVotes:
    def test_a_later_try_votes_and_is_granted_in_its_own_name(self) -> None:
        talk = Talk(quorum_of(3), AGAIN)
        [asked] = talk.poll.requests
        assert isinstance(asked, Acquire)
        assert asked.holder == "me#2"
        talk.hears({0: Granted(9), 1: Granted(7)})
        assert talk.poll.requests == (Raise("job", "me#2", 9),)
        assert talk.hears({1: Granted(9)}).answer == Granted(9, "me#2")

    def test_it_lets_go_of_itself_and_of_those_before(self) -> None:
        talk = Talk(quorum_of(3), AGAIN).hears({0: Granted(9)})
        assert talk.poll.requests == (Release("job", "me#2", True, keeps_place=True),)
        assert isinstance(talk.hears({0: DONE}).answer, Failed)


class TestLateReleases:
    """On a lost connection, what was said may arrive behind what was said on another one."""

    def taken(self, frozen: tuple[int, ...]) -> tuple[QuorumStage, str]:
        """A lease that was taken after some tries in vain; and in whose name."""
        stage = QuorumStage()
        client = stage.client()
        for index in frozen:
            stage.nodes[index].freeze()
        taking = client.start(acquire(client.runtime, claim_of_quorum(renew=False), None))
        stage.run(0.3)
        for index in frozen:
            stage.nodes[index].thaw()
        stage.run(0.5)
        assert taking.result is not None
        return stage, taking.result.holder

    def test_they_do_not_undo_what_was_granted_since(self) -> None:
        stage, holder = self.taken(frozen=(1, 2))
        assert stage.holders() == [holder] * 3
        late = 0
        for node in stage.nodes:
            releases = [asked for asked in node.asked if isinstance(asked, Release)]
            late += len(releases)
            node.execute(releases, stage.clients[0])
        assert late > 2
        assert stage.holders() == [holder] * 3

    def test_nor_does_an_acquire_that_is_late(self) -> None:
        stage, holder = self.taken(frozen=(1, 2))
        for node in stage.nodes:
            earlier = [asked for asked in node.asked if isinstance(asked, Acquire)][:-1]
            assert not any(
                isinstance(answer, Granted) for answer in node.execute(earlier, stage.clients[0])
            )
        assert stage.holders() == [holder] * 3

    def test_a_vote_that_nobody_heard_of_goes_to_the_next_ballot(self) -> None:
        """Its release was lost, too. The holder must not have to wait for its own ghost."""
        stage = QuorumStage()
        client = stage.client()
        ghost = Acquire("job", "me", 1000.0)
        for node in stage.nodes[1:]:
            node.execute([ghost], client)
        stage.run(0.1)
        talk = Talk(client.quorum, Acquire("job", ghost.holder, 2.0, tries=1), until=1.0)
        fences = {i: node.execute(talk.poll.requests, client) for i, node in enumerate(stage.nodes)}
        talk.hears(dict(fences))
        assert isinstance(talk.answer, Granted)
        assert stage.holders() == [talk.answer.holder] * 3
        node = stage.nodes[1]
        assert node.execute([Release("job", ghost.holder)], client) == [DONE]
        assert node.holder() == "", "in the holder's own name, whatever it has is given back"
