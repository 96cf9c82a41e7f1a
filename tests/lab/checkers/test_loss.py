from math import inf

import pytest

from holdfast.lab.checkers import unnotified
from holdfast.lab.history import Kind
from tests.lab.checkers.stories import extended, fault, history, lease, texts, waits


class TestUntold:
    def test_told_in_time(self) -> None:
        assert unnotified(history(lease("A1", 7, 1, 5, lost=5.1)), 0.1, 60) == []
        assert unnotified(history(lease("A1", 7, 1, 5, lost=3)), 0, 60) == []

    def test_told_late(self) -> None:
        (finding,) = unnotified(history(lease("A1", 7, 1, 5, lost=5.2)), 0.1, 60)
        assert finding.text == "A (fence 7) had orders until 5.000 s, and learned of it at 5.200 s"
        assert (finding.at, finding.until, finding.who) == (5, 5.2, ("A",))

    def test_never_told(self) -> None:
        (finding,) = unnotified(history(lease("A1", 7, 1, 5)), 0.1, 60)
        assert finding.text == "A (fence 7) had orders until 5.000 s, and never learned of it"
        assert finding.until == inf

    def test_what_the_run_did_not_last_for(self) -> None:
        assert unnotified(history(lease("A1", 7, 1, 5)), 0.1, 5.05) == []
        assert unnotified(history(lease("A1", 7, 1, 5)), 0.1) == []
        assert len(unnotified(history(lease("A1", 7, 1, 5), waits("B1", 6)), 0.1)) == 1

    def test_who_let_go_needs_no_telling(self) -> None:
        assert unnotified(history(lease("A1", 7, 1, 5, released=4)), 0.1, 60) == []

    def test_who_goes_on_and_lets_go_much_later(self) -> None:
        (text,) = texts(unnotified(history(lease("A1", 7, 1, 5, released=8)), 0.1, 60))
        assert text == "A (fence 7) had orders until 5.000 s, and went on until 8.000 s"

    def test_an_extension_gives_more_time(self) -> None:
        a = lease("A1", 7, 1, 5, lost=8) + extended("A1", 4, 8)
        assert unnotified(history(a), 0.1, 60) == []

    def test_what_has_run_out_is_not_extended(self) -> None:
        a = lease("A1", 7, 1, 5, lost=9) + extended("A1", 6, 9)
        (text,) = texts(unnotified(history(a), 0.1, 60))
        assert text == "A (fence 7) had orders until 5.000 s, and extended it at 6.000 s"

    def test_who_was_paused_is_told_when_it_goes_on(self) -> None:
        pause = fault(4, "A", Kind.PAUSED) + fault(7, "A", Kind.RESUMED)
        assert unnotified(history(lease("A1", 7, 1, 5, lost=7.1), pause), 0.1, 60) == []
        assert len(unnotified(history(lease("A1", 7, 1, 5, lost=7.3), pause), 0.1, 60)) == 1
        assert unnotified(history(lease("A1", 7, 1, 5), fault(4, "A", Kind.PAUSED)), 0.1, 60) == []

    def test_who_is_paused_again_at_once(self) -> None:
        pauses = [
            fault(4, "A", Kind.PAUSED), fault(7, "A", Kind.RESUMED),
            fault(7.05, "A", Kind.PAUSED), fault(9, "A", Kind.RESUMED),
        ]  # fmt: skip
        assert unnotified(history(lease("A1", 7, 1, 5, lost=9.1), *pauses), 0.1, 60) == []

    @pytest.mark.parametrize("who", ["A", "B"])
    def test_a_pause_that_was_over_is_no_excuse_nor_is_anothers(self, who: str) -> None:
        pause = fault(2, who, Kind.PAUSED) + fault(4 if who == "A" else 7, who, Kind.RESUMED)
        assert len(unnotified(history(lease("A1", 7, 1, 5, lost=6), pause), 0.1, 60)) == 1

    def test_a_pause_much_later_is_no_excuse(self) -> None:
        pause = fault(8, "A", Kind.PAUSED) + fault(9, "A", Kind.RESUMED)
        assert len(unnotified(history(lease("A1", 7, 1, 5, lost=9.05), pause), 0.1, 60)) == 1

    def test_who_crashed_needs_no_telling_even_when_it_is_back(self) -> None:
        crash = fault(3, "A", Kind.CRASHED) + fault(4, "A", Kind.STARTED)
        assert unnotified(history(lease("A1", 7, 1, 5), crash), 0.1, 60) == []

    def test_who_crashed_before_or_much_later(self) -> None:
        for at in (0.5, 9):
            crash = fault(at, "A", Kind.CRASHED)
            assert len(unnotified(history(lease("A1", 7, 1, 5), crash), 0.1, 60)) == 1

    def test_what_was_granted_too_late_is_lost_at_once(self) -> None:
        assert unnotified(history(lease("A1", 7, 6, 5, lost=6.1)), 0.1, 60) == []
        assert len(unnotified(history(lease("A1", 7, 6, 5, lost=6.2)), 0.1, 60)) == 1

    def test_a_lock_that_never_ends(self) -> None:
        assert unnotified(history(lease("A1", None, 1, inf)), 0.1, 60) == []
