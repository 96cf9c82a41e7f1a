"""What `release()`, re-entering and leaving a `with` mean."""

from holdfast.core.ledger import Ledger
from holdfast.core.tenure import Tenure
from holdfast.lab.virtual import claim


def tenure(until: float = 100.0) -> Tenure:
    return Tenure(claim("job", 10.0), "me", 1, until, until)


def add(ledger: Ledger[str], owner: object, lease: str, *, entered: bool = False) -> Tenure:
    made = tenure()
    ledger.add(owner, made, lease, entered=entered)
    return made


def test_release_means_the_latest_of_its_caller() -> None:
    ledger = Ledger[str]()
    add(ledger, "ann", "first")
    add(ledger, "ann", "second").let_go()
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
    add(ledger, "ann", "entered with", entered=True).let_go()
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
        released.let_go()
    assert len(ledger._entries) < 50
