"""Looking at locks and breaking one: what is asked, and what the answers come to."""

from math import inf

import pytest

from holdfast.core.effects import Ask
from holdfast.core.messages import (
    DONE,
    NOT_YOURS,
    Break,
    Failed,
    Inspect,
    List,
    Listing,
    Request,
    Seen,
    attempt_id,
)
from holdfast.core.ports import NODE_TIMEOUT
from holdfast.core.queries import PAGE, break_lock, inspect, is_held, page
from holdfast.core.records import Label, LeaseInfo, Member, secret_at
from holdfast.errors import EngineUnavailable
from tests.core.hand import BROKEN, NOW, Hand

SEEN = Seen("p:job", "me", 7, 2.5, 3)
SECRET = 8 * "1f0c"
FOUND, NOTHING = Listing((SEEN,)), Listing(())


def asking(request: Request) -> Ask:
    return Ask((request,), NOW + NODE_TIMEOUT)


def test_who_holds_a_name() -> None:
    hand = Hand()
    play = hand.play(inspect(hand.runtime, "p:", "job"))
    assert play.effect == asking(Inspect("p:job"))
    assert play.hears(FOUND).result == LeaseInfo("job", "me", 7, 2.5, 3, 1, (Member("me", 2.5),))
    free = hand.play(inspect(hand.runtime, "p:", "job")).hears(NOTHING)
    assert (free.result, free.error) == (None, None)


def test_whether_it_is_held() -> None:
    hand = Hand()
    play = hand.play(is_held(hand.runtime, "p:job"))
    assert play.effect == asking(Inspect("p:job"))
    assert play.hears(FOUND).result is True
    assert hand.play(is_held(hand.runtime, "p:job")).hears(NOTHING).result is False


def test_a_page_goes_on_after_a_name() -> None:
    hand = Hand()
    play = hand.play(page(hand.runtime, "p:", "j", "jo"))
    assert play.effect == asking(List("p:j", "p:jo", PAGE))
    assert [info.name for info in play.hears(FOUND).result] == ["job"]


@pytest.mark.parametrize(("answer", "outcome"), [(DONE, True), (NOT_YOURS, False)])
def test_breaking_a_lock(answer: object, outcome: bool) -> None:
    hand = Hand()
    play = hand.play(break_lock(hand.runtime, "p:", "job"))
    assert play.effect == asking(Break("p:job"))
    assert play.goes_on([answer]).result is outcome


def test_an_engine_that_is_unreachable_has_not_said_no() -> None:
    hand = Hand()
    for steps in (
        inspect(hand.runtime, "p:", "job"),
        is_held(hand.runtime, "p:job"),
        page(hand.runtime, "p:", "", ""),
    ):
        play = hand.play(steps).hears(BROKEN)
        assert play.error is None, "a look is repeated once"
        assert isinstance(play.hears(BROKEN).error, EngineUnavailable)
        assert str(play.error).endswith("node: the connection was closed")
    breaking = hand.play(break_lock(hand.runtime, "p:", "job")).hears(BROKEN)
    assert isinstance(breaking.error, EngineUnavailable)
    assert str(breaking.error).endswith("node: the connection was closed")


def test_a_look_survives_a_lost_connection() -> None:
    hand = Hand()
    play = hand.play(is_held(hand.runtime, "p:job")).hears(BROKEN)
    assert play.effect == asking(Inspect("p:job"))
    assert play.hears(FOUND).result is True


def test_a_look_is_not_repeated_when_its_time_is_over() -> None:
    hand = Hand()
    play = hand.play(is_held(hand.runtime, "p:job"))
    hand.now += NODE_TIMEOUT
    assert isinstance(play.hears(BROKEN).error, EngineUnavailable)


def test_a_look_is_not_repeated_where_that_cannot_help() -> None:
    hand = Hand()
    refused = Failed.at("node", "wrong password", inf)
    assert isinstance(
        hand.play(is_held(hand.runtime, "p:job")).hears(refused).error, EngineUnavailable
    )


def test_the_label_of_a_holder() -> None:
    label = Label("web-3", 4711, "nightly.py")
    assert Label.of(f"web-3/4711/nightly.py/{SECRET}") == label
    assert Label.of(attempt_id(f"web-3/4711/nightly.py/{SECRET}", 2)) == label


@pytest.mark.parametrize(
    ("secret", "asked_at"),
    [
        (secret_at(1_800_000_000.5, bytes(range(8))), 1_800_000_000.5),
        (SECRET, None),  # of the first release
        ("fffffffffffffa57" + 16 * "0", None),  # a date that there is not
    ],
)
def test_a_holder_id_tells_when_it_was_made(secret: str, asked_at: float | None) -> None:
    label = Label.of(attempt_id(f"web-3/4711/nightly.py/{secret}", 2))
    assert label is not None
    assert label.asked_at == asked_at


@pytest.mark.parametrize(
    "holder",
    [
        "me",
        f"host/pid/program/{SECRET}",
        "h/1/p",
        f"h/1/p/{SECRET}/y",
        f"h/1//{SECRET}",
        f"h/{'9' * 5000}/p/{SECRET}",  # more digits than Python converts
        "MtakD42590OPqAk/58/JiR/E",  # of python-redis-lock, which takes 18 random bytes in base 64
        "",
    ],
)
def test_a_holder_that_is_not_one_of_ours_has_no_label(holder: str) -> None:
    assert Label.of(holder) is None
