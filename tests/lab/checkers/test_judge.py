from collections.abc import Iterator

from holdfast.lab.checkers import judge
from holdfast.lab.history import Event, History, Kind
from tests.lab.checkers.stories import fault, history, lease, refused, waits, wrote


def everything_wrong() -> Iterator[list[Event]]:
    yield lease("A1", 8, 1, 5)
    yield lease("B1", 7, 6, 9, lost=9)
    yield lease("C1", 9, 8, 20, released=10)
    yield fault(11, "", Kind.HEALED)
    yield waits("D1", 12)


class TestJudge:
    def test_all_of_it_in_the_order_of_time(self) -> None:
        found = judge(
            history(*everything_wrong()),
            tolerance=0.1,
            bound=5,
            until=60,
        )
        assert {finding.label for finding in found} == {
            "two holders at once",
            "fence not greater than before",
            "loss noticed too late",
            "free lock granted to no one",
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
