from holdfast.lab.checkers import starvation
from holdfast.lab.history import Event, Kind
from tests.lab.checkers.stories import fault, history, lease, refused, waits


class TestStarvation:
    HEALED = fault(10, "", Kind.HEALED)

    def test_nobody_gets_it(self) -> None:
        (finding,) = starvation(history(waits("A1", 1), waits("B1", 12), self.HEALED), 5, 20)
        assert finding.text == (
            "orders was free and wanted from 10.000 s to 20.000 s, and none of A, B was granted it"
        )
        assert (finding.at, finding.until, finding.who) == (10, 20, ("A", "B"))

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

    def test_who_tries_again_and_again_wants_it_all_the_time(self) -> None:
        tries = [refused(f"A{n}", n, n + 0.1) for n in range(30)]
        (finding,) = starvation(history(*tries, self.HEALED), 5, 60)
        assert (finding.at, finding.until) == (10, 29.1)

    def test_who_gives_up_wants_it_no_more(self) -> None:
        assert starvation(history(refused("A1", 11, 14), self.HEALED), 5, 60) == []

    def test_who_is_gone_wants_nothing(self) -> None:
        for kind in (Kind.CRASHED, Kind.PAUSED):
            gone = fault(11, "A", kind)
            assert starvation(history(waits("A1", 1), gone, self.HEALED), 5, 60) == []

    def test_who_is_back_wants_it_again(self) -> None:
        pause = fault(3, "A", Kind.PAUSED) + fault(20, "A", Kind.RESUMED)
        (finding,) = starvation(history(waits("A1", 1), pause, self.HEALED), 5, 60)
        assert finding.at == 20

    def test_a_grant_that_came_too_late_is_none(self) -> None:
        late = lease("A1", 7, 13, 12, asked=1)
        assert len(starvation(history(late, waits("B1", 1), self.HEALED), 5, 60)) == 1

    def test_what_nobody_wants(self) -> None:
        assert starvation(history(lease("A1", 7, 1, 9), self.HEALED), 5, 60) == []

    def test_each_gap_is_judged_by_itself(self) -> None:
        told = history(waits("C1", 1), lease("A1", 7, 13, 20), lease("B1", 8, 24, 30), self.HEALED)
        assert starvation(told, 5, 33) == []
        assert [found.at for found in starvation(told, 3.5, 33)] == [20]

    def test_a_want_that_was_met_before_the_gap_is_no_want(self) -> None:
        told = history(lease("A1", 7, 12, 20, asked=1), refused("B1", 19, 21), self.HEALED)
        assert starvation(told, 5, 60) == []
