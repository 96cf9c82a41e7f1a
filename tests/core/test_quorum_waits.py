"""How long to wait for a lock over a quorum that somebody has, and for whom to wait."""

from holdfast.core.fanout import ReleaseRound
from holdfast.core.messages import DONE, Acquire, Failed, Granted, Held, Release
from holdfast.core.quorum import RELEASE_TIMEOUT, UNSURE
from tests.core.quorum_stage import Talk, quorum_of

ME = Acquire("job", "me", 2.0)
BEGAN = 50.0


class Clock:
    def __init__(self) -> None:
        self.now = BEGAN

    def __call__(self) -> float:
        return self.now


def refused(count: int, *answers: Held) -> object:
    """What it comes to if the first nodes refuse like this, and the rest is silent."""
    talk = Talk(quorum_of(count, Clock()), ME, until=BEGAN + 1)
    for node, answer in enumerate(answers):
        talk.poll.received(node, [answer])
    talk.hears({})
    return talk.answer if talk.answers else talk.hears({}).answer


def by(holder: str, remaining: float, *, wakes: bool = True) -> Held:
    return Held(remaining, wakes, holder)


def test_only_the_ends_of_the_one_who_has_a_majority_count() -> None:
    ours = by("a", 5.0), by("a", 6.0), by("a", 7.0)
    assert refused(5, *ours, by("b", 0.1), by("b", 0.2)) == by("a", 5.0)


def test_one_node_that_will_wake_us_is_enough() -> None:
    mute = by("a", 1.0, wakes=False)
    assert refused(3, mute, by("a", 1.0), mute) == by("a", 1.0)


def test_a_holder_who_may_have_a_majority_is_waited_for_a_little() -> None:
    assert refused(5, by("a", 9.0), by("a", 8.0), by("b", 7.0)) == by("a", UNSURE)
    assert refused(5, by("a", 0.2), by("a", 0.3), by("b", 7.0)) == by("a", 0.2)


def test_those_who_cannot_have_one_are_rivals_and_a_draw_decides() -> None:
    split = [by(holder, 9.0) for holder in ("a", "a", "b", "b", "c")]
    # A vote takes a millisecond at least; three rivals and ourselves.
    assert refused(5, *split) == Held(2 * 4 * 0.001, wakes=False)


def test_a_silent_majority_is_a_failure_and_one_less_is_not() -> None:
    assert isinstance(refused(5, by("a", 9.0), by("a", 9.0)), Failed)
    assert refused(5, by("a", 9.0), by("a", 9.0), by("a", 9.0)) == by("a", 9.0)


def test_a_node_whose_quarantine_ends_within_our_patience_is_not_asked_yet() -> None:
    talk = Talk(quorum_of(3, Clock(), late=(BEGAN + 0.5,)), ME, until=BEGAN + 1)
    assert list(talk.poll.nodes) == [1, 2]


def test_a_majority_in_quarantine_is_told_with_what_is_left_of_it() -> None:
    late = (BEGAN + 10, BEGAN + 20)
    answer = Talk(quorum_of(3, Clock(), late=late), ME, until=BEGAN + 1).answer
    assert isinstance(answer, Failed)
    told = dict(answer.nodes)
    assert ", in 10.0 s (see" in told["n0"]
    assert ", in 20.0 s (see" in told["n1"]


def test_what_was_granted_in_vain_is_given_back_within_the_same_patience() -> None:
    clock = Clock()
    talk = Talk(quorum_of(3, clock), ME, until=BEGAN + 1)
    clock.now += 0.75
    talk.hears({0: Granted(1), 1: by("a", 9.0), 2: by("a", 9.0)})
    assert talk.poll.requests == (Release("job", "me#0", False, keeps_place=True),)
    assert talk.poll.until == BEGAN + 1.75


def test_a_second_round_has_the_same_patience_too() -> None:
    clock = Clock()
    talk = Talk(quorum_of(3, clock), ME, until=BEGAN + 1)
    clock.now += 0.75
    talk.hears({0: Granted(1), 1: Granted(2)})
    assert talk.poll.until == BEGAN + 1.75


def test_nobody_is_in_a_hurry_to_hear_that_a_lock_was_given_back() -> None:
    quorum = quorum_of(3, Clock())
    for request_timeout, waits in ((0.1, RELEASE_TIMEOUT), (2.0, 2.0)):
        talk = Talk(quorum, Release("job", "me"), until=BEGAN + request_timeout)
        assert isinstance(talk.poll, ReleaseRound)
        assert talk.poll.until == BEGAN + waits
    many = Talk(quorum, Release("a", "me"), Release("b", "me"), until=BEGAN + 0.1)
    assert many.poll.until == BEGAN + 0.1
    assert many.hears({0: [DONE, DONE], 1: [DONE, DONE]}).answers == [DONE, DONE]
