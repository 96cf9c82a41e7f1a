"""Keeping, giving back and looking at locks over a quorum, asked by hand."""

import pytest

from holdfast.core.messages import (
    DONE,
    MISSING,
    NOT_YOURS,
    Answer,
    Break,
    Extend,
    Failed,
    Inspect,
    List,
    Listing,
    Release,
    Repair,
    Seen,
)
from tests.core.quorum_stage import Talk, quorum_of

MINE = Extend("job", "me", 2.0, 7)
BROKEN = Failed.at("redis", "ERR broken")
SIZES = (1, 2, 3, 4, 5, 7)


def repairs(talk: Talk) -> list[tuple[list[int], object]]:
    """What was said after the first poll, and to whom."""
    return [(list(poll.nodes), poll.requests) for poll in talk.polls[1:]]


class TestExtending:
    @pytest.mark.parametrize("count", SIZES)
    def test_it_needs_a_majority_that_says_still_yours(self, count: int) -> None:
        majority = count // 2 + 1
        talk = Talk(quorum_of(count), MINE)
        assert list(talk.poll.nodes) == list(range(count))
        assert talk.hears(dict.fromkeys(range(majority), DONE)).answer == DONE
        talk = Talk(quorum_of(count), MINE).hears(dict.fromkeys(range(majority - 1), DONE))
        assert isinstance(talk.answer, Failed)

    @pytest.mark.parametrize("no", [MISSING, NOT_YOURS])
    @pytest.mark.parametrize("count", SIZES)
    def test_a_majority_of_the_contrary_is_a_loss(self, count: int, no: Answer) -> None:
        majority = count // 2 + 1
        talk = Talk(quorum_of(count), MINE).hears(dict.fromkeys(range(majority), no))
        assert talk.answer == NOT_YOURS
        talk = Talk(quorum_of(count), MINE).hears(dict.fromkeys(range(majority - 1), no))
        assert isinstance(talk.answer, Failed)

    def test_what_is_released_meanwhile_is_not_put_back(self) -> None:
        quorum = quorum_of(3)
        extending, releasing = Talk(quorum, MINE), Talk(quorum, Release("job", "me"))
        assert extending.hears({0: DONE, 1: DONE, 2: MISSING}).answer == DONE
        assert releasing.polls
        assert repairs(extending) == []
        again = Talk(quorum, MINE).hears({0: DONE, 1: DONE, 2: MISSING})
        assert len(again.polls) == 2

    def test_nor_is_what_has_ended_meanwhile(self) -> None:
        now = 0.0
        talk = Talk(quorum_of(3, lambda: now), MINE)
        now = 2.0
        talk.hears({0: DONE, 1: DONE, 2: MISSING})
        assert repairs(talk) == []

    def test_a_node_that_is_told_again_has_as_long_as_it_had_for_the_question(self) -> None:
        now = 50.0
        talk = Talk(quorum_of(3, lambda: now), MINE, until=51.0)
        now = 50.75
        talk.hears({0: DONE, 1: DONE, 2: MISSING})
        assert talk.poll.until == 51.75

    def test_nothing_is_kept_of_what_is_over_or_was_broken_off(self) -> None:
        quorum = quorum_of(3)
        Talk(quorum, MINE).hears({0: DONE, 1: DONE, 2: DONE})
        assert not quorum._extending
        broken_off = Talk(quorum, MINE)
        assert quorum._extending == {"me"}
        broken_off._steps.close()
        assert not quorum._extending

    def test_errors_and_silence_prove_nothing(self) -> None:
        talk = Talk(quorum_of(5), MINE).hears({0: DONE, 1: DONE, 2: BROKEN, 3: MISSING})
        assert talk.answer == Failed(
            (
                ("n0", "done"),
                ("n1", "done"),
                ("n2", "ERR broken"),
                ("n3", "no such lock"),
                ("n4", "did not answer in time"),
            )
        )
        assert len(talk.polls) == 1

    def test_a_node_that_has_forgotten_is_told_again_after_a_majority_confirmed(self) -> None:
        talk = Talk(quorum_of(3), MINE).hears({0: DONE, 1: MISSING, 2: DONE})
        assert repairs(talk) == [([1], [Repair("job", "me", 2.0, 7)])]
        assert talk.hears({1: DONE}).answer == DONE

    @pytest.mark.parametrize("answer", [NOT_YOURS, BROKEN, None])
    def test_a_repair_that_fails_changes_nothing(self, answer: Answer | None) -> None:
        talk = Talk(quorum_of(3), MINE).hears({0: DONE, 1: MISSING, 2: DONE})
        assert talk.hears({1: answer} if answer else {}).answer == DONE

    def test_a_repair_is_no_vote(self) -> None:
        talk = Talk(quorum_of(3), MINE).hears({0: DONE, 1: MISSING})
        assert isinstance(talk.answer, Failed)
        assert repairs(talk) == []

    def test_what_an_operator_broke_is_not_put_back(self) -> None:
        talk = Talk(quorum_of(3), MINE).hears({0: DONE, 1: MISSING, 2: MISSING})
        assert talk.answer == NOT_YOURS
        assert repairs(talk) == []

    def test_somebody_elses_lock_is_not_repaired(self) -> None:
        talk = Talk(quorum_of(3), MINE).hears({0: DONE, 1: NOT_YOURS, 2: DONE})
        assert talk.answer == DONE
        assert repairs(talk) == []

    def test_of_many_leases_each_has_its_own_answer_and_only_forgotten_ones_are_repaired(
        self,
    ) -> None:
        leases = [Extend(f"job{i}", "me", 2.0, i) for i in range(4)]
        talk = Talk(quorum_of(3), *leases).hears(
            {
                0: [DONE, DONE, MISSING, BROKEN],
                1: [DONE, MISSING, MISSING, DONE],
                2: [MISSING, DONE, DONE, MISSING],
            }
        )
        assert repairs(talk) == [([1], [Repair("job1", "me", 2.0, 1)])]
        talk.hears({1: DONE})
        assert repairs(talk)[1:] == [([2], [Repair("job0", "me", 2.0, 0)])]
        talk.hears({})
        assert talk.answers is not None
        assert talk.answers[:3] == [DONE, DONE, NOT_YOURS]
        assert dict(getattr(talk.answers[3], "nodes", ())) == {
            "n0": "ERR broken",
            "n1": "done",
            "n2": "no such lock",
        }

    def test_a_node_in_quarantine_is_asked_and_repaired_but_has_no_vote(self) -> None:
        quorum = quorum_of(3, late=(10.0,))
        talk = Talk(quorum, MINE).hears({0: DONE, 1: DONE})
        assert isinstance(talk.answer, Failed)
        assert ", in 10.0 s (see" in dict(talk.answer.nodes)["n0"]
        talk = Talk(quorum, MINE).hears({0: MISSING, 1: DONE, 2: DONE})
        assert repairs(talk) == [([0], [Repair("job", "me", 2.0, 7)])]

    def test_nor_has_one_whose_quarantine_ended_while_it_was_asked(self) -> None:
        now = 0.0
        talk = Talk(quorum_of(3, lambda: now, late=(0.5,)), MINE)
        now = 0.6
        assert isinstance(talk.hears({0: DONE, 1: DONE}).answer, Failed)

    def test_at_the_end_of_its_quarantine_a_node_is_like_any_other(self) -> None:
        quorum = quorum_of(3, late=(0.0,))
        assert Talk(quorum, MINE).hears({0: DONE, 1: DONE}).answer == DONE
        few = Talk(quorum, MINE).hears({0: DONE}).answer
        assert isinstance(few, Failed)
        assert dict(few.nodes)["n0"] == "done"


class TestReleasing:
    @pytest.mark.parametrize("count", SIZES)
    def test_all_are_told_and_a_majority_is_waited_for(self, count: int) -> None:
        talk = Talk(quorum_of(count), Release("job", "me"))
        assert list(talk.poll.nodes) == list(range(count))
        assert talk.poll.requests[0] == Release("job", "me", True)
        for node in range(count // 2 + 1):
            assert not talk.poll.over
            talk.poll.received(node, [DONE])
        assert talk.poll.over
        assert talk.hears({}).answer == DONE

    @pytest.mark.parametrize(
        ("answers", "outcome"),
        [
            ({0: DONE, 1: DONE, 2: DONE}, DONE),
            ({0: DONE, 1: MISSING}, DONE),  # two are free, and the third may have been ours
            ({0: DONE, 1: DONE, 2: BROKEN}, DONE),
            ({0: DONE, 1: MISSING, 2: MISSING}, NOT_YOURS),
            ({0: DONE, 1: NOT_YOURS, 2: NOT_YOURS}, NOT_YOURS),
            ({1: MISSING, 2: NOT_YOURS}, NOT_YOURS),
            ({0: DONE, 1: BROKEN}, None),
            ({0: MISSING}, None),
            ({}, None),
        ],
    )
    def test_what_the_answers_come_to(
        self, answers: dict[int, Answer], outcome: Answer | None
    ) -> None:
        answer = Talk(quorum_of(3), Release("job", "me")).hears(dict(answers)).answer
        if outcome is None:
            assert isinstance(answer, Failed)
            assert [name for name, _ in answer.nodes] == ["n0", "n1", "n2"]
        else:
            assert answer == outcome

    def test_many_at_once_have_an_answer_each(self) -> None:
        talk = Talk(quorum_of(3), Release("a", "me"), Release("b", "me"))
        talk.hears({0: [DONE, MISSING], 1: [DONE, MISSING], 2: [MISSING, DONE]})
        assert talk.answers == [DONE, NOT_YOURS]


class TestBreaking:
    @pytest.mark.parametrize(
        ("answers", "outcome"),
        [
            ({0: DONE, 1: DONE, 2: DONE}, DONE),
            ({0: MISSING, 1: DONE, 2: MISSING}, DONE),  # whatever was left of it
            ({0: MISSING, 1: MISSING, 2: MISSING}, NOT_YOURS),
            ({0: DONE, 1: MISSING}, DONE),
        ],
    )
    def test_a_majority_must_have_been_told(
        self, answers: dict[int, Answer], outcome: Answer
    ) -> None:
        assert Talk(quorum_of(3), Break("job")).hears(dict(answers)).answer == outcome

    def test_a_node_in_quarantine_is_told_too(self) -> None:
        talk = Talk(quorum_of(3, late=(10.0,)), Break("job"))
        assert list(talk.poll.nodes) == [0, 1, 2]

    def test_or_nobody_knows(self) -> None:
        talk = Talk(quorum_of(3), Break("job")).hears({0: DONE, 1: BROKEN})
        assert isinstance(talk.answer, Failed)


def seen(key: str, holder: str = "a", fence: int = 1, remaining: float = 1.0) -> Seen:
    return Seen(key, holder, fence, remaining, None)


def listing(*leases: Seen) -> Listing:
    return Listing(leases)


class TestLooking:
    def test_a_lock_is_held_if_a_majority_ascribes_it_to_one_holder(self) -> None:
        talk = Talk(quorum_of(3), Inspect("job"))
        talk.hears(
            {
                0: listing(seen("job", fence=4, remaining=3.0)),
                1: listing(seen("job", fence=5, remaining=1.0)),
                2: listing(seen("job", fence=5, remaining=2.0)),
            }
        )
        # It is there until one of the last two has ended: then it is on a minority.
        assert talk.answer == listing(seen("job", fence=5, remaining=2.0))

    def test_it_is_there_until_too_few_are_left_that_know_it(self) -> None:
        talk = Talk(quorum_of(5), Inspect("job"))
        answers: dict[int, Answer] = {4: listing()}
        for node, end in enumerate((1.0, 4.0, 2.0, 3.0)):
            answers[node] = listing(seen("job", remaining=end))
        talk.hears(dict(answers))
        assert talk.answer == listing(seen("job", remaining=2.0))

    def test_where_no_majority_of_counters_agrees_the_greatest_is_shown(self) -> None:
        talk = Talk(quorum_of(3), Inspect("job"))
        answers = {node: listing(seen("job", fence=fence)) for node, fence in enumerate((5, 7, 6))}
        assert talk.hears(dict(answers)).answer == listing(seen("job", fence=7))

    @pytest.mark.parametrize("others", [listing(), listing(seen("job", "b"))])
    def test_what_a_minority_says_is_not_a_lock(self, others: Listing) -> None:
        talk = Talk(quorum_of(5), Inspect("job"))
        ours = listing(seen("job"))
        talk.hears({0: ours, 1: ours, 2: others, 3: others, 4: listing()})
        assert talk.answer == listing()

    def test_too_few_answers_are_a_failure(self) -> None:
        talk = Talk(quorum_of(3), Inspect("job")).hears({0: listing(seen("job")), 1: BROKEN})
        assert isinstance(talk.answer, Failed)
        talk = Talk(quorum_of(3), List("", "", 10)).hears({0: listing()})
        assert isinstance(talk.answer, Failed)

    def test_locks_are_listed_in_order_whoever_knew_of_them_first(self) -> None:
        a, b = seen("a"), seen("b")
        talk = Talk(quorum_of(3), List("", "", 10))
        talk.hears({0: listing(b), 1: listing(a, b), 2: listing(a)})
        assert talk.answer == listing(a, b)

    def test_a_page_ends_where_the_first_full_node_ends(self) -> None:
        a, b, c, d = (seen(key) for key in "abcd")
        talk = Talk(quorum_of(3), List("", "", 2))
        talk.hears({0: listing(a, b), 1: listing(a, c), 2: listing(b, d)})
        # The first node knows more than b; c may be there as well.
        assert talk.answer == listing(a, b)

    def test_pages_on_which_no_majority_agrees_are_skipped(self) -> None:
        talk = Talk(quorum_of(3), List("p", "", 1))
        talk.hears({0: listing(seen("pa")), 1: listing(seen("pb")), 2: listing(seen("pc"))})
        assert talk.poll.requests == (List("p", "pa", 1),)
        talk.hears({0: listing(seen("pc")), 1: listing(seen("pb")), 2: listing(seen("pc"))})
        assert talk.poll.requests == (List("p", "pb", 1),)
        talk.hears({0: listing(seen("pc")), 1: listing(), 2: listing(seen("pc"))})
        assert talk.answer == listing(seen("pc"))

    def test_the_last_page_is_empty(self) -> None:
        talk = Talk(quorum_of(3), List("", "z", 2))
        assert talk.hears(dict.fromkeys(range(3), listing())).answer == listing()
        talk = Talk(quorum_of(3), List("", "", 2))
        answers: dict[int, Answer] = {0: listing(seen("a")), 1: listing(seen("b")), 2: listing()}
        assert talk.hears(dict(answers)).answer == listing()
