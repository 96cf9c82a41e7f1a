from collections.abc import Iterator

from holdfast.lab.checkers import contradictions, judge
from holdfast.lab.history import Event, History, Kind
from tests.lab.checkers.stories import extended, fault, history, lease, refused, texts, waits, wrote


class TestUnreadable:
    def test_a_history_that_makes_sense(self) -> None:
        run = history(
            lease("A1", 7, 1, 5, lost=5), extended("A1", 2, 6), refused("B1", 1, 2), waits("C1", 1)
        )
        assert contradictions(run) == []

    def test_asking_again_with_the_same_hold_is_harmless(self) -> None:
        assert contradictions(history(lease("A1", 7, 1, 5), lease("A1", 7, 2, 6))) == []

    def test_a_hold_with_two_fences(self) -> None:
        (text,) = texts(contradictions(history(lease("A1", 7, 1, 5), lease("A1", 8, 2, 6))))
        assert text == (
            "A granted orders at 2.000 s, of A1 with fence 8, which it has with fence 7"
        )

    def test_a_grant_of_no_hold(self) -> None:
        (text,) = texts(contradictions(History([Event(1, "A", Kind.GRANTED, "orders", fence=7)])))
        assert text == "A granted orders at 1.000 s, without a hold"

    def test_what_was_never_granted(self) -> None:
        (text,) = texts(contradictions(history(waits("A1", 1), extended("A1", 2, 6))))
        assert text == "A extended orders at 2.000 s, of A1, which was never granted"

    def test_two_clients_with_one_hold(self) -> None:
        run = History([*waits("A1", 1), Event(2, "B", Kind.REFUSED, "orders", "A1")])
        (text,) = texts(contradictions(run))
        assert text == "B refused orders at 2.000 s, of A1, which is A's hold of orders"


def everything_wrong() -> Iterator[list[Event]]:
    yield lease("A1", 8, 1, 5)
    yield lease("B1", 7, 6, 9, lost=9)
    yield lease("C1", 9, 8, 20, released=10)
    yield wrote("C1", 9, 8.5)
    yield wrote("B1", 7, 8.6)
    yield wrote("B1", 7, 8.7, "plain")
    yield fault(11, "", Kind.HEALED)
    yield waits("D1", 12)
    yield extended("E1", 13, 14)


class TestJudge:
    def test_all_of_it_in_the_order_of_time(self) -> None:
        found = judge(
            history(*everything_wrong()),
            tolerance=0.1,
            bound=5,
            unfenced=["plain"],
            until=60,
        )
        assert {finding.label for finding in found} == {
            "two holders at once",
            "fence not greater than before",
            "stale write accepted",
            "loss noticed too late",
            "free lock granted to no one",
            "contradictory history",
        }
        assert [finding.at for finding in found] == sorted(finding.at for finding in found)

    def test_all_is_well(self) -> None:
        run = history(
            lease("A1", 7, 1, 5, released=3),
            wrote("A1", 7, 2),
            fault(3.5, "", Kind.HEALED),
            lease("B1", 8, 4, 6, lost=6),
            wrote("B1", 8, 5),
            refused("C1", 4, 5),
        )
        assert judge(run, tolerance=0.1, bound=5, until=60) == []

    def test_nothing_happened(self) -> None:
        assert judge(History(), tolerance=0, bound=0) == []
