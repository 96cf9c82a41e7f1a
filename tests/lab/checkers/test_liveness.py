from math import inf

import pytest

from holdfast.lab.checkers import starvation, unnotified
from holdfast.lab.history import Event, Kind
from tests.lab.checkers.stories import extended, fault, history, lease, refused, texts, waits


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


class TestStarvation:
    HEALED = fault(10, "", Kind.HEALED)

    def test_nobody_gets_it(self) -> None:
        found = starvation(history(waits("A1", 1), waits("B1", 12), self.HEALED), 5, 20)
        assert found[0].text == (
            "orders was free from 10.000 s to 20.000 s, and A wanted it, and was not granted it"
        )
        assert [(each.at, each.until, each.who) for each in found] == [
            (10, 20, ("A",)),
            (12, 20, ("B",)),
        ]

    def test_somebody_gets_it_in_time(self) -> None:
        got = lease("A1", 7, 14, 30, asked=1)
        assert starvation(history(got, waits("B1", 1), self.HEALED), 5, 30) == []

    def test_somebody_gets_it_late(self) -> None:
        got = lease("A1", 7, 16, 30, asked=1)
        assert len(starvation(history(got, self.HEALED), 5, 30)) == 1

    def test_before_the_faults_are_over_anything_may_happen(self) -> None:
        assert starvation(history(waits("A1", 1)), 5, 100) == []
        cut = [Event(1, "A", Kind.HEALED, peer="n1")]
        assert starvation(history(waits("A1", 1), cut), 5, 100) == []

    def test_who_has_it_may_keep_it(self) -> None:
        holder = lease("A1", 7, 1, 60)
        assert starvation(history(holder, waits("B1", 2), self.HEALED), 5, 60) == []

    def test_after_a_crash_it_is_free_when_its_time_is_up(self) -> None:
        holder = lease("A1", 7, 1, 20) + fault(11, "A", Kind.CRASHED)
        got = lease("B1", 8, 24, 60, asked=2)
        assert starvation(history(holder, got, self.HEALED), 5, 60) == []
        late = lease("B1", 8, 26, 60, asked=2)
        assert len(starvation(history(holder, late, self.HEALED), 5, 60)) == 1

    def test_who_gives_up_wants_it_no_more(self) -> None:
        assert starvation(history(refused("A1", 11, 14), self.HEALED), 5, 60) == []

    def test_who_is_gone_wants_nothing(self) -> None:
        gone = fault(9, "A", Kind.CRASHED)
        assert starvation(history(waits("A1", 1), gone, self.HEALED), 5, 60) == []

    def test_a_grant_that_came_too_late_is_none(self) -> None:
        late = lease("A1", 7, 13, 12, asked=1)
        assert len(starvation(history(late, waits("B1", 1), self.HEALED), 5, 60)) == 1

    def test_what_nobody_wants(self) -> None:
        assert starvation(history(lease("A1", 7, 1, 9), self.HEALED), 5, 60) == []

    def test_each_gap_is_judged_by_itself(self) -> None:
        run = history(waits("C1", 1), lease("A1", 7, 13, 20), lease("B1", 8, 24, 30), self.HEALED)
        assert starvation(run, 5, 33) == []
        assert [found.at for found in starvation(run, 3.5, 33)] == [20]

    def test_a_want_that_was_met_before_the_gap_is_no_want(self) -> None:
        run = history(lease("A1", 7, 12, 20, asked=1), refused("B1", 19, 21), self.HEALED)
        assert starvation(run, 5, 60) == []
