from itertools import permutations
from random import Random

from holdfast.lab.checkers import corruption, disorder
from holdfast.lab.history import Event, Hold, Kind
from tests.lab.checkers.stories import history, lease, wrote


class TestDisorder:
    def test_a_lower_fence_after_a_greater_one(self) -> None:
        (finding,) = disorder(history(lease("A1", 8, 1, 2), lease("B1", 7, 3, 4)))
        assert finding.text == (
            "B was granted orders with fence 7 at 3.000 s, "
            "although A had been granted fence 8 before, at 1.000 s"
        )
        assert finding.who == ("A", "B")

    def test_who_asked_long_before_still_gets_the_greater_one(self) -> None:
        waited = lease("B1", 7, 3, 4, asked=0)
        assert len(disorder(history(lease("A1", 8, 1, 2), waited))) == 1

    def test_growing_with_gaps(self) -> None:
        calls = [lease("A1", 7, 1, 2), lease("B1", 9, 2, 3), lease("A2", 20, 4, 5)]
        assert disorder(history(*calls)) == []

    def test_a_grant_heard_when_its_time_was_up_may_be_an_earlier_one(self) -> None:
        late = lease("A1", 7, 5, 4, asked=1)
        assert disorder(history(late, lease("B1", 8, 4.5, 9))) == []

    def test_even_so_it_is_later_than_what_was_heard_before_it_was_asked_for(self) -> None:
        late = lease("A1", 7, 5, 4, asked=3)
        assert len(disorder(history(lease("B1", 8, 1, 2), late))) == 1

    def test_shared_leases_may_have_one_fence_or_any_order(self) -> None:
        reads = [lease("A1", 7, 1, 2, shares=0), lease("B1", 7, 3, 4, shares=0)]
        assert disorder(history(*reads, lease("C1", 6, 5, 6, shares=0))) == []

    def test_between_shared_and_exclusive_ones_it_grows(self) -> None:
        read, write = lease("A1", 7, 1, 2, shares=0), lease("B1", 7, 3, 4)
        assert len(disorder(history(read, write))) == 1
        assert len(disorder(history(read, lease("B1", 6, 3, 4)))) == 1
        earlier = lease("B1", 8, 0, 0.5)
        assert len(disorder(history(earlier, read))) == 1

    def test_of_two_at_once_the_order_is_not_known(self) -> None:
        at_once = [lease("A1", 8, 1, 9, asked=0), lease("B1", 7, 2, 9, asked=0)]
        assert disorder(history(*at_once)) == []

    def test_once_a_lock_was_broken_a_valid_lease_may_be_an_earlier_one(self) -> None:
        valid = lease("A1", 7, 5, 9, asked=1)
        story = history(lease("B1", 8, 3, 4, asked=0), valid)
        assert len(disorder(story)) == 1
        assert disorder(story, broken_at=5) == []
        assert len(disorder(history(lease("B1", 8, 0, 0.5), valid), broken_at=0)) == 1

    def test_the_same_fence_twice(self) -> None:
        (finding,) = disorder(history(lease("A1", 7, 1, 2), lease("B1", 7, 3, 4)))
        assert finding.text == (
            "B was granted orders with fence 7 at 3.000 s, "
            "although A had been granted fence 7 before, at 1.000 s"
        )
        assert len(disorder(history(lease("A1", 7, 1, 2), lease("A2", 7, 3, 4)))) == 1

    def test_each_name_has_fences_of_its_own(self) -> None:
        there = lease("B1", 7, 3, 4, name="invoices")
        assert disorder(history(lease("A1", 8, 1, 2), there)) == []

    def test_a_lock_without_fences(self) -> None:
        assert disorder(history(lease("A1", None, 1, 2), lease("B1", None, 3, 4))) == []

    def test_in_a_long_history_each_wrong_one_is_found_once(self) -> None:
        random = Random(1)
        fences = list(range(0, 2000, 2))
        for n in sorted(random.sample(range(1, 1000, 3), 20)):
            fences[n] = -n
        calls = [lease(f"A{n}", fence, n, n + 0.5) for n, fence in enumerate(fences)]
        assert len(disorder(history(*calls))) == 20

    def test_it_agrees_with_looking_at_every_pair(self) -> None:
        found = 0
        for seed in range(300):
            random = Random(seed)
            run = history(*(_any_lease(random, fence) for fence in random.sample(range(9), 5)))
            leases = run.leases()["orders"]
            wrong = {
                later.who
                for before, later in permutations(leases, 2)
                if _is_surely_before(before, later) and (before.fence or 0) > (later.fence or 0)
            }
            assert {finding.who[1] for finding in disorder(run)} == wrong, seed
            found += bool(wrong)
        assert 50 < found < 290


def _any_lease(random: Random, fence: int) -> list[Event]:
    asked = random.randint(0, 9)
    since = asked + random.randint(0, 4)
    return lease(f"{'ABCDEFGHI'[fence]}1", fence, since, since + random.randint(-1, 3), asked=asked)


def _is_surely_before(before: Hold, later: Hold) -> bool:
    known, known_later = before.at(Kind.GRANTED), later.at(Kind.GRANTED)
    valid = known < before.ended and known_later < later.ended
    return known < later.asked or (valid and before.ended <= known_later)


class TestCorruption:
    def test_an_old_write_after_a_new_one(self) -> None:
        writes = [wrote("B1", 8, 3.5, "plain"), wrote("A1", 7, 5, "plain")]
        (finding,) = corruption(history(*writes), ["plain"])
        assert finding.text == (
            "plain accepted a write by A with fence 7 at 5.000 s, "
            "after one by B with fence 8 at 3.500 s"
        )
        assert finding.who == ("B", "A")
        assert finding.at == finding.until == 5

    def test_growing_and_equal_fences(self) -> None:
        writes = [
            wrote("A1", 7, 1, "plain"),
            wrote("A1", 7, 2, "plain"),
            wrote("B1", 8, 3, "plain"),
        ]
        assert corruption(history(*writes), ["plain"]) == []

    def test_each_register_by_itself(self) -> None:
        writes = [wrote("A1", 8, 1, "plain"), wrote("B1", 7, 2, "other")]
        assert corruption(history(*writes), ["plain", "other"]) == []

    def test_what_was_rejected_was_not_written(self) -> None:
        away = [Event(2, "A", Kind.REJECTED, "plain", "A1", 7)]
        assert corruption(history(wrote("B1", 8, 1, "plain"), away), ["plain"]) == []

    def test_writes_in_one_instant_stay_in_their_order(self) -> None:
        old, new = wrote("A1", 7, 1, "plain"), wrote("B1", 8, 1, "plain")
        assert corruption(history(old, new), ["plain"]) == []
        assert len(corruption(history(new, old), ["plain"])) == 1

    def test_other_registers_are_let_be(self) -> None:
        assert corruption(history(wrote("B1", 8, 1), wrote("A1", 7, 2)), ["plain"]) == []
