from holdfast.lab.checkers import corruption, stale_writes
from holdfast.lab.history import Event, Kind
from tests.lab.checkers.stories import history, lease, refused, texts, wrote


class TestStaleWrites:
    def test_a_lower_fence_than_one_before(self) -> None:
        writes = [wrote("A1", 7, 1), wrote("B1", 8, 2), wrote("A1", 7, 3), wrote("B1", 8, 4)]
        (finding,) = stale_writes(history(*writes))
        assert finding.text == (
            "fenced accepted a write by A with fence 7 at 3.000 s, "
            "after one by B with fence 8 at 2.000 s"
        )

    def test_each_register_by_itself(self) -> None:
        assert stale_writes(history(wrote("A1", 8, 1), wrote("B1", 7, 2, "other"))) == []

    def test_what_is_turned_away_was_not_taken(self) -> None:
        away = [Event(2, "A", Kind.REJECTED, "fenced", "A1", 7)]
        assert stale_writes(history(wrote("B1", 8, 1), away)) == []

    def test_a_write_without_a_fence(self) -> None:
        (text,) = texts(stale_writes(history(wrote("A1", None, 1))))
        assert text == "fenced accepted a write by A at 1.000 s with no fence"

    def test_a_register_that_judges_nothing_is_let_be(self) -> None:
        writes = [wrote("B1", 8, 1, "plain"), wrote("A1", 7, 2, "plain")]
        assert stale_writes(history(*writes), ["plain"]) == []

    def test_writes_in_one_instant_stay_in_their_order(self) -> None:
        assert stale_writes(history(wrote("A1", 7, 1), wrote("B1", 8, 1))) == []
        assert len(stale_writes(history(wrote("B1", 8, 1), wrote("A1", 7, 1)))) == 1


class TestCorruption:
    def test_a_write_by_who_has_it_no_more_while_another_has_it(self) -> None:
        leases = [lease("A1", 7, 1, 2), lease("B1", 8, 3, 9)]
        (finding,) = corruption(history(*leases, wrote("A1", 7, 4, "plain")), ["plain"])
        assert finding.text == (
            "A (fence 7) wrote 'by A1' to plain at 4.000 s "
            "without having orders, which B (fence 8) had"
        )
        assert finding.who == ("A", "B")

    def test_a_write_in_its_own_time_or_in_nobodys(self) -> None:
        writes = [
            wrote("A1", 7, 1, "plain"),
            wrote("A1", 7, 2, "plain"),
            wrote("A1", 7, 2.5, "plain"),
        ]
        leases = [lease("A1", 7, 1, 2), lease("B1", 8, 3, 9)]
        assert corruption(history(*leases, *writes), ["plain"]) == []

    def test_the_instant_in_which_it_goes_to_another(self) -> None:
        leases = [lease("A1", 7, 1, 2), lease("B1", 8, 2, 9)]
        assert corruption(history(*leases, wrote("A1", 7, 2, "plain")), ["plain"]) == []

    def test_an_old_write_after_a_new_one(self) -> None:
        leases = [lease("A1", 7, 1, 2), lease("B1", 8, 3, 4)]
        writes = [wrote("B1", 8, 3.5, "plain"), wrote("A1", 7, 5, "plain")]
        (finding,) = corruption(history(*leases, *writes), ["plain"])
        assert "with fence 7 at 5.000 s, after one by B with fence 8" in finding.text

    def test_each_write_is_found_once(self) -> None:
        leases = [lease("A1", 7, 1, 2), lease("B1", 8, 3, 9)]
        writes = [wrote("B1", 8, 3.5, "plain"), wrote("A1", 7, 4, "plain")]
        assert len(corruption(history(*leases, *writes), ["plain"])) == 1

    def test_who_was_never_granted_anything(self) -> None:
        told = history(refused("A1", 0, 1), lease("B1", 8, 1, 9), wrote("A1", None, 2, "plain"))
        assert len(corruption(told, ["plain"])) == 1

    def test_other_registers_are_let_be(self) -> None:
        leases = [lease("A1", 7, 1, 2), lease("B1", 8, 3, 9)]
        assert corruption(history(*leases, wrote("A1", 7, 4, "fenced")), ["plain"]) == []
