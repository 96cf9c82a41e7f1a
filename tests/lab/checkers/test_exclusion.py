from itertools import combinations
from math import inf
from random import Random

from holdfast.lab.checkers import overlaps
from holdfast.lab.history import Kind
from tests.lab.checkers.stories import extended, fault, history, lease, texts


class TestOverlaps:
    def test_two_at_once(self) -> None:
        (finding,) = overlaps(history(lease("A1", 7, 0.5, 1.95), lease("B1", 8, 1.204, 3)))
        assert finding.text == (
            "B was granted orders (fence 8) at 1.204 s while A (fence 7) was valid until 1.950 s"
        )
        assert (finding.at, finding.until, finding.who) == (1.204, 1.95, ("A", "B"))

    def test_one_after_the_other_may_touch(self) -> None:
        assert overlaps(history(lease("A1", 7, 1, 2), lease("B1", 8, 2, 3))) == []
        a = lease("A1", 7, 1, 9, released=2)
        assert overlaps(history(a, lease("B1", 8, 2, 3))) == []
        a = lease("A1", 7, 1, 9, lost=2)
        assert overlaps(history(a, lease("B1", 8, 2, 3))) == []

    def test_names_have_nothing_to_do_with_each_other(self) -> None:
        a, b = lease("A1", 7, 1, 9), lease("B1", 8, 2, 9, name="invoices")
        assert overlaps(history(a, b)) == []

    def test_a_client_excludes_itself(self) -> None:
        assert len(overlaps(history(lease("A1", 7, 1, 9), lease("A2", 8, 2, 9)))) == 1

    def test_once_a_lock_was_broken_its_holder_may_not_know_yet(self) -> None:
        story = history(lease("A1", 7, 1, 9), lease("B1", 8, 2, 9))
        assert overlaps(story, broken_at=2) == []
        assert len(overlaps(story, broken_at=2.001)) == 1

    def test_the_same_instant(self) -> None:
        assert len(overlaps(history(lease("A1", 7, 1, 2), lease("B1", 8, 1, 2)))) == 1

    def test_what_was_granted_too_late_overlaps_nothing(self) -> None:
        assert overlaps(history(lease("A1", 7, 2, 1.5), lease("B1", 8, 1, 9))) == []

    def test_a_short_one_does_not_hide_a_long_one(self) -> None:
        found = overlaps(history(lease("A1", 7, 1, 9), lease("B1", 8, 2, 3), lease("C1", 9, 4, 5)))
        assert [finding.who for finding in found] == [("A", "B"), ("A", "C")]

    def test_readers_may_meet_and_no_writer(self) -> None:
        reads = [lease("A1", 7, 1, 9, shares=0), lease("B1", 7, 2, 9, shares=0)]
        assert overlaps(history(*reads)) == []
        found = overlaps(history(*reads, lease("C1", 8, 3, 4)))
        assert [finding.who for finding in found] == [("A", "C")]
        found = overlaps(history(*reads, lease("C1", 8, 3, 4, shares=2)))
        assert [finding.who for finding in found] == [("A", "C")]

    def test_no_more_than_there_are_slots(self) -> None:
        slots = [lease("A1", 7, 1, 9, shares=2), lease("B1", 7, 2, 3, shares=2)]
        assert overlaps(history(*slots, lease("C1", 7, 3, 4, shares=2))) == []
        assert len(overlaps(history(*slots, lease("C1", 7, 2.5, 4, shares=2)))) == 1

    def test_an_extension_counts(self) -> None:
        a = lease("A1", 7, 1, 3) + extended("A1", 2, 5)
        assert len(overlaps(history(a, lease("B1", 8, 4, 6)))) == 1

    def test_who_extends_what_another_has_got_since(self) -> None:
        a = lease("A1", 7, 1, 3) + extended("A1", 5, 8)
        (finding,) = overlaps(history(a, lease("B1", 8, 4, 6)))
        assert finding.text == (
            "A went on with orders (fence 7) at 5.000 s while B (fence 8) was valid until 6.000 s"
        )

    def test_a_hole_is_nobodys(self) -> None:
        a = lease("A1", 7, 1, 3) + extended("A1", 5, 8)
        assert overlaps(history(a, lease("B1", 8, 4, 5))) == []

    def test_a_crash_does_not_end_a_lease(self) -> None:
        crash = fault(2, "A", Kind.CRASHED)
        assert len(overlaps(history(lease("A1", 7, 1, 9), crash, lease("B1", 8, 3, 4)))) == 1

    def test_a_lock_without_fences_or_end(self) -> None:
        found = overlaps(history(lease("A1", None, 1, inf), lease("B1", None, 2, inf)))
        assert texts(found) == ["B was granted orders at 2.000 s while A was valid forever"]
        assert found[0].until == inf

    def test_it_agrees_with_looking_at_every_pair(self) -> None:
        found = 0
        for seed in range(300):
            random = Random(seed)
            spans = [(at, at + random.randint(0, 3)) for at in random.choices(range(20), k=6)]
            leases = [lease(f"A{n}", n, *span) for n, span in enumerate(spans)]
            at_once = any(
                max(one[0], other[0]) < min(one[1], other[1])
                for one, other in combinations(spans, 2)
            )
            assert bool(overlaps(history(*leases))) is at_once, seed
            found += at_once
        assert 50 < found < 250
