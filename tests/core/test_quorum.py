"""Getting a lock from a quorum, asked by hand: who is asked what, and what the answers mean."""

from math import inf

import pytest

from holdfast.core.effects import Sleep
from holdfast.core.messages import (
    DONE,
    MISSING,
    NOT_YOURS,
    Acquire,
    Answer,
    Failed,
    Granted,
    Held,
    Raise,
    Release,
)
from holdfast.core.quorum import UNSURE, Quorum
from holdfast.engines.redis import drift
from tests.core.quorum_stage import Talk, granted, quorum_of
from tests.core.votes import EPOCH

SIZES = (1, 2, 3, 4, 5, 7)
NOW = int(EPOCH * 1_000_000)
ME = Acquire("job", "me", 2.0)
BY_A, BY_B = Held(1.0, True, "a"), Held(1.5, True, "b")
BROKEN = Failed.at("redis", "ERR broken")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_all_are_asked_at_once_and_proposed_the_same_fence() -> None:
    talk = Talk(quorum_of(5), ME)
    assert list(talk.poll.nodes) == [0, 1, 2, 3, 4]
    assert talk.poll.requests == (Acquire("job", "me", 2.0, False, NOW),)
    assert talk.poll.until == 1.0
    assert not talk.poll.over


@pytest.mark.parametrize("count", SIZES)
def test_a_majority_of_grants_is_enough_and_ends_the_round(count: int) -> None:
    majority = count // 2 + 1
    talk = Talk(quorum_of(count), ME)
    for node in range(majority):
        assert not talk.poll.over
        talk.poll.received(node, [Granted(NOW)])
    assert talk.poll.over
    talk.hears({})
    assert talk.answer == Granted(NOW, "me")
    assert len(talk.polls) == 1


@pytest.mark.parametrize("count", SIZES)
def test_one_grant_too_few_is_no_lock_and_is_given_back_by_all(count: int) -> None:
    few = count // 2
    talk = Talk(quorum_of(count), ME).hears(granted([NOW] * few))
    assert talk.poll.requests == (
        Release("job", "me#0", True, keeps_place=True),
    )  # they may have granted it
    assert list(talk.poll.nodes) == list(range(count))  # the silent ones too
    talk.hears(dict.fromkeys(range(few), DONE))
    assert isinstance(talk.answer, Failed)


@pytest.mark.parametrize("count", SIZES)
def test_the_round_ends_when_another_holder_has_a_majority(count: int) -> None:
    talk = Talk(quorum_of(count), ME)
    for node in range(count // 2 + 1):
        assert not talk.poll.over
        talk.poll.received(node, [BY_A])
    assert talk.poll.over


def test_an_error_of_a_minority_does_not_matter() -> None:
    talk = Talk(quorum_of(3), ME).hears({0: BROKEN, 1: Granted(NOW), 2: Granted(NOW)})
    assert talk.answer == Granted(NOW, "me")


def test_grants_that_come_while_they_are_given_back_are_no_other_holder() -> None:
    """Whoever tries once would be told that somebody has it, though nobody ever had."""
    talk = Talk(quorum_of(3), ME)
    vote = talk.poll
    talk.hears({0: Granted(NOW)})  # and then its time was over
    for node in (1, 2):
        vote.received(node, [Granted(NOW)])
    talk.hears(dict.fromkeys(range(3), DONE))
    assert isinstance(talk.answer, Failed)


def test_a_majority_that_granted_too_late_outweighs_a_refusal() -> None:
    talk = Talk(quorum_of(3), ME)
    vote = talk.poll
    talk.hears({0: BY_A})
    for node in (1, 2):
        vote.received(node, [Granted(NOW)])
    talk.hears(dict.fromkeys((1, 2), DONE))
    assert isinstance(talk.answer, Failed)


def test_a_failure_names_every_node_with_what_it_answered() -> None:
    answers: dict[int, Answer] = {0: BROKEN, 1: Granted(NOW), 3: BY_A}
    talk = Talk(quorum_of(5), ME).hears(dict(answers)).hears({})
    assert talk.answer == Failed(
        (
            ("n0", "ERR broken"),
            ("n1", "granted"),
            ("n2", "did not answer in time"),
            ("n3", "held by a for 1.000 s"),
            ("n4", "did not answer in time"),
        )
    )


def test_those_who_refused_keep_our_place_and_the_others_are_told_to_forget_us() -> None:
    talk = Talk(quorum_of(5), ME).hears({0: BY_A, 1: Granted(NOW), 2: BY_A, 3: BROKEN})
    assert list(talk.poll.nodes) == [1, 3, 4]
    talk.poll.received(1, [DONE])
    talk.poll.received(3, [MISSING])
    assert not talk.poll.over  # a release is waited for, or the next try could meet its own ghost
    talk.poll.received(4, [MISSING])
    assert talk.poll.over


def test_a_refusal_by_all_is_not_followed_by_anything() -> None:
    talk = Talk(quorum_of(3), ME)
    for node in range(3):  # the last one came before we stopped listening
        talk.poll.received(node, [BY_A])
    talk.hears({})
    assert talk.answer == Held(1.0, True, "a")
    assert len(talk.polls) == 1


def test_time_left_is_judged_after_the_last_answer() -> None:
    clock = Clock()
    talk = Talk(quorum_of(3, clock), ME)
    clock.now = ME.ttl - drift(ME.ttl) - 0.001
    assert talk.hears(granted([NOW] * 3)).answer == Granted(NOW, "me")

    clock.now = 0.0
    talk = Talk(quorum_of(3, clock), ME)
    clock.now = ME.ttl - drift(ME.ttl)
    talk.hears(granted([NOW] * 3))
    # The third may have granted, too, though nobody waited for it. Somebody may have been told to
    # wait for us, so they are to be woken.
    assert talk.poll.requests == (Release("job", "me#0", True, keeps_place=True),)
    assert list(talk.poll.nodes) == [0, 1, 2]
    talk.hears(dict.fromkeys(range(3), DONE))
    assert isinstance(talk.answer, Failed)
    assert "longer than the ttl allows" in str(talk.answer)


def test_time_left_is_judged_after_the_second_round_too() -> None:
    clock = Clock()
    talk = Talk(quorum_of(3, clock), ME).hears(granted([NOW, NOW + 5]))
    clock.now = ME.ttl
    talk.hears({0: Granted(NOW + 5)})
    assert talk.poll.requests == (Release("job", "me#0", True, keeps_place=True),)
    assert isinstance(talk.hears({}).answer, Failed)


class TestFences:
    def test_a_node_that_was_raised_to_something_else_does_not_count(self) -> None:
        talk = Talk(quorum_of(3), ME).hears({0: Granted(7), 1: Granted(9)})
        talk.hears({0: Granted(10)})
        assert talk.poll.requests == (Release("job", "me#0", True, keeps_place=True),)

    def test_equal_grants_cost_one_round(self) -> None:
        talk = Talk(quorum_of(5), ME).hears({4: Granted(9), 0: Granted(9), 2: Granted(9)})
        assert talk.answer == Granted(9, "me")
        assert len(talk.polls) == 1

    def test_those_who_lag_behind_are_raised_in_a_second_round(self) -> None:
        talk = Talk(quorum_of(5), ME).hears({4: Granted(9), 0: Granted(7), 2: Granted(8)})
        assert talk.poll.requests == (Raise("job", "me", 9),)
        assert sorted(talk.poll.nodes) == [0, 2]  # nobody else's grant was heard
        talk.poll.received(0, [Granted(9)])
        assert not talk.poll.over
        talk.poll.received(2, [Granted(9)])
        assert talk.poll.over
        assert talk.hears({}).answer == Granted(9, "me")
        assert len(talk.polls) == 2

    def test_as_many_as_are_missing_must_follow(self) -> None:
        talk = Talk(quorum_of(5), ME)
        for node, fence in {0: 9, 1: 9, 2: 8, 3: 7}.items():  # two answers came together
            talk.poll.received(node, [Granted(fence)])
        talk.hears({})
        assert sorted(talk.poll.nodes) == [2, 3]
        talk.poll.received(3, [NOT_YOURS])
        assert not talk.poll.over
        assert talk.hears({2: Granted(9)}).answer == Granted(9, "me")

    @pytest.mark.parametrize("answers", [{}, {0: NOT_YOURS}, {0: BROKEN}, {0: MISSING}])
    def test_without_a_majority_in_the_second_round_there_is_no_lock(
        self, answers: dict[int, Answer]
    ) -> None:
        talk = Talk(quorum_of(3), ME).hears({0: Granted(7), 1: Granted(9)})
        talk.hears(dict(answers))
        assert talk.poll.requests == (Release("job", "me#0", True, keeps_place=True),)
        assert list(talk.poll.nodes) == [0, 1, 2]
        assert not isinstance(talk.hears({0: DONE, 1: DONE, 2: DONE}).answer, Granted)


class TestRefusals:
    def test_the_wait_lasts_until_a_majority_may_be_free(self) -> None:
        ends = [4.0, 1.0, 3.0, 2.0, 5.0]
        talk = Talk(quorum_of(5), ME)
        for node, end in enumerate(ends):
            talk.poll.received(node, [Held(end, True, "a")])
        assert talk.hears({}).answer == Held(3.0, True, "a")

    def test_a_holder_that_nobody_is_sure_of_is_not_waited_for_long(self) -> None:
        talk = Talk(quorum_of(3), ME).hears({0: Held(50.0, True, "a"), 1: Granted(NOW)})
        assert talk.hears({1: DONE}).answer == Held(UNSURE, True, "a")

    def test_a_vote_that_was_split_is_tried_again_soon_after_a_draw(self) -> None:
        clock = Clock()
        talk = Talk(quorum_of(3, clock), ME)
        clock.now = 0.01
        talk.poll.received(0, [Granted(NOW)])
        talk.poll.received(1, [BY_A])
        talk.hears({2: BY_B})
        assert talk.poll.requests == (Release("job", "me#0", False, keeps_place=True),)
        assert list(talk.poll.nodes) == [0]
        assert talk.hears({0: DONE}).answer == Held(2 * 3 * 0.01, False, "")

    def test_whoever_cannot_be_waited_for_is_not_said_to_wake_us(self) -> None:
        talk = Talk(quorum_of(3), ME).hears({0: Held(1.0, False, "x"), 1: Held(1.0, False, "x")})
        assert talk.hears({}).answer == Held(1.0, False, "x")

    @pytest.mark.parametrize("count", [2, 4])
    def test_an_even_number_of_nodes_has_no_tie(self, count: int) -> None:
        half = count // 2
        talk = Talk(quorum_of(count), ME)
        for node in range(count):
            talk.poll.received(node, [Granted(NOW) if node < half else BY_A])
        talk.hears({})
        assert talk.poll.requests == (Release("job", "me#0", False, keeps_place=True),)
        answer = talk.hears(dict.fromkeys(range(half), DONE)).answer
        assert isinstance(answer, Held)
        assert not answer.wakes

    def test_a_failing_majority_is_a_failure_even_if_some_say_held(self) -> None:
        talk = Talk(quorum_of(5), ME).hears({0: BY_A, 1: BY_A, 2: BROKEN, 3: BROKEN, 4: BROKEN})
        assert isinstance(talk.hears({}).answer, Failed)


@pytest.mark.parametrize(
    ("answers", "heals_in"),
    [
        ([None, None, None], None),
        ([None, Granted(NOW), None], None),
        ([inf, inf, Granted(NOW)], inf),  # such as a wrong password
        ([inf, None, Granted(NOW)], None),
        ([Granted(NOW), inf, 5.0], 5.0),
        ([7.0, 5.0, None], 7.0),
    ],
)
def test_a_failure_says_when_a_majority_will_answer(
    answers: list[Answer | float | None], heals_in: float | None
) -> None:
    said: dict[int, Answer] = {
        node: Failed.at("redis", "ERR", each) if isinstance(each, float) else each
        for node, each in enumerate(answers)
        if each is not None
    }
    talk = Talk(quorum_of(3), ME).hears(dict(said))
    if talk.answers is None:
        talk.hears({})
    assert isinstance(talk.answer, Failed)
    assert talk.answer.heals_in == heals_in


class TestScatter:
    def test_a_waiter_that_was_woken_waits_a_little_and_at_most_its_patience(self) -> None:
        waiting = Acquire("job", "me", 2.0, queue=True)
        for until, pause in ((1.0, 0.003), (0.001, 0.001)):
            assert next(quorum_of(3).ask((waiting,), until)) == Sleep(pause)

    def test_its_time_is_counted_from_before_that(self) -> None:
        clock = Clock()
        steps = quorum_of(3, clock).ask((Acquire("job", "me", 0.02, queue=True),), 0.005)
        next(steps)
        clock.now = 0.003
        vote = next(steps)
        assert not isinstance(vote, Sleep)
        assert vote.until == 0.008  # every node has its whole time all the same
        assert vote.requests[0] == Acquire("job", "me", 0.02, True, NOW + 3000)
        clock.now = 0.02 - drift(0.02)
        vote.received(0, [Granted(1)])
        vote.received(1, [Granted(1)])
        release = next(steps)
        assert not isinstance(release, Sleep)
        assert isinstance(release.requests[0], Release)


class TestQuarantine:
    """A node that the restart guard does not trust yet."""

    def quorum(self) -> Quorum:
        return quorum_of(3, late=(10.0,))

    def test_it_is_not_asked_for_its_vote(self) -> None:
        talk = Talk(self.quorum(), ME)
        assert list(talk.poll.nodes) == [1, 2]
        assert talk.hears({1: Granted(9), 2: Granted(9)}).answer == Granted(9, "me")

    def test_without_it_there_may_be_no_majority(self) -> None:
        talk = Talk(self.quorum(), ME).hears({1: Granted(9), 2: BY_A})
        assert list(talk.poll.nodes) == [1]
        assert not isinstance(talk.hears({1: DONE}).answer, Granted)

    def test_a_majority_in_quarantine_is_said_at_once_with_its_end(self) -> None:
        talk = Talk(quorum_of(3, late=(10.0, 20.0)), ME)
        assert isinstance(talk.answer, Failed)
        assert not talk.polls
        told = dict(talk.answer.nodes)
        assert "no vote until 22:13:30 UTC, in 10.0 s (see" in told["n0"]
        assert "no vote until 22:13:40 UTC, in 20.0 s (see" in told["n1"]
        assert told["n2"] == "not asked"
        assert talk.answer.heals_in == 10.0

    def test_two_nodes_with_one_run_id_end_all_votes_until_they_are_two_servers(self) -> None:
        quorum = quorum_of(5)
        for guard, run in zip(quorum.guards, "abcad", strict=True):
            guard.met(run, 1e6, False, 0.0)
        answer = Talk(quorum, ME).answer
        assert isinstance(answer, Failed)
        told = dict(answer.nodes)
        assert told["n0"].startswith("is the same server as n3 ")
        assert told["n3"].startswith("is the same server as n0 ")
        assert told["n1"] == "not asked, because two other addresses lead to one server"
        assert answer.heals_in == inf
        quorum.guards[3].met("e", 1e6, False, 0.0)  # the address leads to another server now
        assert list(Talk(quorum, ME).poll.nodes) == [0, 1, 2, 4]

    def test_its_release_is_heard_all_the_same(self) -> None:
        talk = Talk(self.quorum(), Release("job", "me"))
        assert list(talk.poll.nodes) == [0, 1, 2]

    def test_a_grant_of_a_node_whose_restart_was_noticed_meanwhile_does_not_count(self) -> None:
        quorum = quorum_of(3)
        talk = Talk(quorum, ME)
        quorum.guards[0].quarantined_until = 10.0
        talk.hears({0: Granted(9), 1: Granted(9), 2: Granted(9)})
        assert talk.answer == Granted(9, "me")

    def test_nor_does_that_of_one_that_restarted_after_it(self) -> None:
        quorum = quorum_of(3)
        talk = Talk(quorum, ME)
        talk.poll.received(0, [Granted(9)])
        quorum.guards[0].quarantined_until = 10.0
        talk.hears({1: Granted(9)})
        assert talk.poll.requests == (Release("job", "me#0", True, keeps_place=True),)
        assert not isinstance(talk.hears({}).answer, Granted)

    def test_it_is_given_back_if_that_leaves_too_few(self) -> None:
        quorum = quorum_of(3)
        talk = Talk(quorum, ME)
        quorum.guards[0].quarantined_until = 10.0
        talk.hears({0: Granted(9), 1: Granted(9), 2: BROKEN})
        assert talk.poll.requests[0] == Release("job", "me#0", True, keeps_place=True)
        assert list(talk.poll.nodes) == [0, 1, 2]

    def test_a_majority_found_to_be_in_quarantine_is_a_failure_that_says_so(self) -> None:
        """Whoever connects for the first time learns of it only when it has asked."""
        quorum = quorum_of(3)
        talk = Talk(quorum, ME)
        quorum.guards[0].quarantined_until = quorum.guards[1].quarantined_until = 10.0
        talk.hears(granted([9, 9, 9]))
        answer = talk.hears(dict.fromkeys(talk.poll.nodes, DONE)).answer
        assert isinstance(answer, Failed)
        assert ", in 10.0 s (see" in dict(answer.nodes)["n1"]
