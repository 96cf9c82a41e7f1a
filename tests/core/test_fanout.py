"""When a poll of several nodes is over."""

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.core.fanout import AcquireRound, FanOut, ReleaseRound
from holdfast.core.messages import DONE, MISSING, Acquire, Answer, Failed, Granted, Held, Release
from holdfast.core.restart_guard import RestartGuard

ASKED, RELEASE = Acquire("job", "me", 2.0), Release("job", "me")
BROKEN = Failed.at("node", "ERR broken")
HELD = Held(1.0, False)
GUARDS = [RestartGuard(60.0) for _ in range(3)]


def a_vote() -> AcquireRound:
    """Two of three are enough."""
    return AcquireRound(ASKED, range(3), 1.0, 2, GUARDS, 0.0)


def hear(poll: FanOut, answers: list[Answer]) -> list[bool]:
    """Each node answers in turn; whether it was over after each."""
    over = []
    for node, answer in enumerate(answers):
        poll.received(node, [answer])
        over.append(poll.over)
    return over


def test_a_plain_poll_wants_to_hear_everybody() -> None:
    poll = FanOut([ASKED], range(3), 1.0)
    assert hear(poll, [DONE, BROKEN, MISSING]) == [False, False, True]
    assert [poll.answer_of(node) for node in range(4)] == [DONE, BROKEN, MISSING, None]


def test_each_request_has_its_answer() -> None:
    poll = FanOut([ASKED, RELEASE], [0], 1.0)
    poll.received(0, [HELD, DONE])
    assert (poll.answer_of(0, 0), poll.answer_of(0, 1)) == (HELD, DONE)


@pytest.mark.parametrize(
    ("answers", "over"),
    [
        ([Granted(1), Granted(1), Granted(1)], [False, True, True]),
        ([HELD, Granted(1), Granted(1)], [False, False, True]),
        ([HELD, BROKEN, Granted(1)], [False, False, True]),
        ([BROKEN, BROKEN, Granted(1)], [False, True, True]),
        ([Held(1.0, False, "a"), Held(1.0, False, "b"), Granted(1)], [False, False, True]),
        ([Granted(1), HELD, HELD], [False, False, True]),
    ],
)
def test_a_vote_is_over_when_nothing_can_change_it(answers: list[Answer], over: list[bool]) -> None:
    assert hear(a_vote(), answers) == over


def test_who_granted_after_that_is_known_all_the_same() -> None:
    vote = a_vote()
    hear(vote, [Granted(1), Granted(1), Granted(7)])
    assert vote.grants() == {0: 1, 1: 1, 2: 7}


class Meanwhile(RestartGuard):
    """A guard whose look is an instant at which another thread does something."""

    meanwhile: Callable[[], object] = staticmethod(bool)

    def __getattribute__(self, name: str) -> Any:
        if name == "quarantined_until":
            self.meanwhile()
        return super().__getattribute__(name)


def test_a_slow_node_may_grant_while_its_caller_looks() -> None:
    """The fault: the caller's acquire raised `RuntimeError: dictionary changed size`."""
    guards = [Meanwhile(60.0) for _ in range(3)]
    vote = AcquireRound(ASKED, range(3), 1.0, 2, guards, 0.0)
    vote.received(0, [Granted(1)])
    vote.over = True  # its time is over
    guards[0].meanwhile = lambda: vote.received(2, [Granted(7)])
    assert vote.grants() == {0: 1}
    guards[0].meanwhile = bool
    assert vote.grants() == {0: 1, 2: 7}


def test_its_caller_is_woken_once() -> None:
    poll, woken = FanOut([RELEASE], range(2), 1.0), list[bool]()
    poll.wake = lambda: woken.append(poll.over)
    poll.received(0, [DONE])
    assert woken == []
    for _ in range(2):
        poll.received(1, [DONE])
    assert woken == [True]


def test_a_grant_counts_no_more_once_its_node_turns_out_to_be_in_quarantine() -> None:
    guards = [RestartGuard(60.0) for _ in range(3)]
    vote = AcquireRound(ASKED, range(3), 1.0, 2, guards, 0.0)
    hear(vote, [Granted(1), Granted(1)])
    guards[1].quarantined_until = 9.0
    assert vote.grants() == {0: 1}


def test_a_node_may_vote_from_the_end_of_its_quarantine_on() -> None:
    for ends, grants in ((4.999, {0: 1}), (5.0, {0: 1}), (5.001, {})):
        guard = RestartGuard(60.0)
        guard.quarantined_until = ends
        vote = AcquireRound(ASKED, range(1), 9.0, 1, [guard], began=5.0)
        vote.received(0, [Granted(1)])
        assert vote.grants() == grants
        assert vote.over


@pytest.mark.parametrize(
    ("answers", "over"),
    [
        ([DONE, DONE, DONE], [False, True, True]),
        ([DONE, MISSING, DONE], [False, False, True]),
        ([MISSING, BROKEN, MISSING], [False, False, True]),
    ],
)
def test_a_farewell_is_over_when_enough_have_let_go_or_all_have_answered(
    answers: list[Answer], over: list[bool]
) -> None:
    assert hear(ReleaseRound(RELEASE, range(3), 1.0, 2), answers) == over


@pytest.mark.parametrize(
    "poll",
    [
        FanOut([RELEASE], range(3), 1.0),
        a_vote(),
        ReleaseRound(RELEASE, range(3), 1.0, 2),
    ],
)
def test_what_was_given_up_stays_over_whoever_answers_then(poll: FanOut) -> None:
    poll.over = True
    assert hear(poll, [DONE]) == [True]
    assert poll.answer_of(0) == DONE
