"""What `release()`, re-entering and leaving a `with` mean."""

from holdfast.core.lease_state import LeaseState
from holdfast.core.ledger import Entry, Ledger
from holdfast.lab.virtual import spec


def tenure(until: float = 100.0) -> LeaseState:
    return LeaseState(spec("job", 10.0), "me", 1, until, until)


def add(ledger: Ledger[str], owner: object, lease: str, *, entered: bool = False) -> LeaseState:
    made = tenure()
    ledger.add(owner, made, lease, entered=entered)
    return made


def test_release_means_the_latest_of_its_caller() -> None:
    ledger = Ledger[str]()
    add(ledger, "ann", "first")
    add(ledger, "ann", "second").mark_released()
    add(ledger, "ben", "third")
    assert ledger.latest("ann") == "first"
    assert ledger.latest("ben") == "third"


def test_else_the_only_one_there_is() -> None:
    ledger = Ledger[str]()
    assert ledger.latest("ann") is None
    add(ledger, "ann", "first")
    assert ledger.latest("cyd") == "first"
    assert ledger.latest(None) == "first"
    add(ledger, "ben", "second")
    assert ledger.latest("cyd") is None
    assert ledger.latest(None) is None


def test_a_loss_is_told_once() -> None:
    ledger = Ledger[str]()
    add(ledger, "ann", "first").lose("for a reason")
    assert ledger.latest("ann") == "first"
    assert ledger.latest("ann") is None


def test_leaving_means_the_lease_that_was_entered_with() -> None:
    ledger = Ledger[str]()
    add(ledger, "ann", "outer", entered=True)
    add(ledger, "ann", "inner", entered=True)
    add(ledger, "ann", "kept")
    assert ledger.leave("ann") == "inner"
    assert ledger.leave("ann") == "outer"
    assert ledger.leave("ann") is None
    assert ledger.latest("ann") == "kept"


def test_a_block_left_by_another_thread_than_it_was_entered_by() -> None:
    ledger = Ledger[str]()
    add(ledger, "ann", "first", entered=True)
    assert ledger.leave("ben") == "first"


def test_a_block_that_took_the_lock_again_gives_that_back() -> None:
    ledger = Ledger[str]()
    add(ledger, "ann", "entered with", entered=True).mark_released()
    add(ledger, "ben", "another's")
    add(ledger, "ann", "taken again")
    assert ledger.leave("ann") == "taken again"


def test_only_what_is_held_can_be_taken_again() -> None:
    ledger = Ledger[str]()
    held = add(ledger, "ann", "first")
    entry = ledger.held_by("ann", 0.0)
    assert entry is not None
    assert entry.lease == "first"
    assert ledger.held_by("ben", 0.0) is None
    assert ledger.held_by(None, 0.0) is None
    assert ledger.held_by("ann", held.valid_until) is None


def test_it_does_not_grow() -> None:
    ledger = Ledger[str]()
    for number in range(1000):
        made = tenure(until=float(number))  # all have run out by the time the next is taken
        ledger.add("ann", made, str(number), entered=False)
        released = tenure()
        if ledger.add("ben", released, str(number), entered=False):
            ledger.prune("ann", float(number))
        released.mark_released()
    assert len(ledger._entries) < 50


def test_whoever_is_nobody_took_nothing() -> None:
    """Outside of any thread or task that is known, two leases cannot be told apart."""
    ledger = Ledger[str]()
    add(ledger, None, "first")
    add(ledger, None, "second")
    assert ledger.latest(None) is None
    assert ledger.held_by(None, 0.0) is None


def test_a_stranger_cannot_tell_which_of_two_blocks_it_leaves() -> None:
    ledger = Ledger[str]()
    add(ledger, "ann", "hers", entered=True)
    add(ledger, "ben", "his", entered=True)
    assert ledger.leave("cyd") is None
    assert [ledger.leave(owner) for owner in ("ann", "ben")] == ["hers", "his"]


def test_a_block_that_released_its_lease_leaves_that_and_not_the_one_around_it() -> None:
    ledger = Ledger[str]()
    add(ledger, "ann", "outer", entered=True)
    add(ledger, "ann", "inner", entered=True).mark_released()
    assert ledger.leave("ann") == "inner"
    assert ledger.leave("ann") == "outer"


def test_of_what_a_block_took_again_the_latest_that_is_not_settled_is_meant() -> None:
    ledger = Ledger[str]()
    add(ledger, "ann", "entered with", entered=True).mark_released()
    add(ledger, "ann", "taken again")
    add(ledger, "ann", "and again").mark_released()
    assert ledger.leave("ann") == "taken again"


def test_a_lost_lease_stays_until_its_block_is_left() -> None:
    ledger = Ledger[str]()
    add(ledger, "ann", "lost", entered=True).lose("for a reason")
    ledger.prune("ann", 1000.0)
    assert ledger.latest("ann") == "lost"
    assert ledger.latest("ann") == "lost"
    assert ledger.leave("ann") == "lost"
    assert ledger.leave("ann") is None


def test_what_is_over_is_forgotten_but_not_what_another_has_yet_to_be_told_of() -> None:
    ledger = Ledger[str]()
    add(ledger, "ann", "released").mark_released()
    add(ledger, "ann", "ran out")
    add(ledger, "ben", "his ran out")
    for lease in ("a", "b", "c"):
        late = tenure(until=1000.0)
        ledger.add("ann", late, lease, entered=False)
    ledger.prune("ann", 100.0)
    assert [entry.lease for entry in ledger._entries] == ["his ran out", "a", "b", "c"]
    assert ledger.latest("ben") == "his ran out"


def test_a_loss_is_kept_for_its_owner_while_others_come_and_go() -> None:
    ledger = Ledger[str]()
    add(ledger, "ann", "lost").lose("for a reason")
    for _ in range(3):
        add(ledger, "ben", "taken and given back").mark_released()
    assert ledger.latest("ann") == "lost"


def test_what_was_given_back_is_forgotten_by_the_next_that_is_taken() -> None:
    ledger = Ledger[str]()
    for number in range(4):
        released = add(ledger, "ann", str(number))
        assert [entry.lease for entry in ledger._entries] == [str(number)]
        released.mark_released()


def test_what_another_thread_forgets_while_the_rest_is_pruned_takes_nothing_else_with_it() -> None:
    ledger = Ledger[str]()

    class Slow(LeaseState):
        def is_held(self, now: float) -> bool:
            add(ledger, "ben", "meanwhile")
            return super().is_held(now)

    slow = Slow(spec("job", 10.0), "me", 1, 100.0, 100.0)
    ledger.add("ann", slow, "first", entered=False)
    add(ledger, "ann", "second")
    slow.mark_released()
    ledger.prune("ann", 0.0)
    assert [entry.lease for entry in ledger._entries] == ["second", "meanwhile"]


def test_a_loss_that_another_thread_forgets_meanwhile_is_told_all_the_same() -> None:
    class Entries(list[Entry[str]]):
        def remove(self, entry: Entry[str]) -> None:
            self.clear()  # which another thread has just done
            super().remove(entry)

    ledger = Ledger[str]()
    add(ledger, "ann", "lost").lose("for a reason")
    ledger._entries = Entries(ledger._entries)
    assert ledger.latest("ann") == "lost"


def test_it_is_time_to_prune_when_it_has_doubled() -> None:
    ledger = Ledger[str]()
    kept = [tenure() for _ in range(40)]
    pruned = []
    for number, each in enumerate(kept, 1):
        if ledger.add("ann", each, "held", entered=False):
            ledger.prune("ann", 0.0)
            pruned.append(number)
    assert pruned == [9, 19, 39]


def test_what_is_added_while_the_rest_is_pruned_stays() -> None:
    """`add` needs no mutex, so it may come at any instant of a pruning."""
    ledger = Ledger[str]()

    class Slow(LeaseState):
        def is_held(self, now: float) -> bool:
            add(ledger, "ben", "meanwhile")
            return super().is_held(now)

    ledger.add("ann", Slow(spec("job", 10.0), "me", 1, 100.0, 100.0), "first", False)
    add(ledger, "ann", "second").mark_released()
    ledger.prune("ann", 0.0)
    assert ledger.latest("ann") == "first"
    assert ledger.latest("ben") == "meanwhile"
