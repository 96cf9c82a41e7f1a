"""Extending and giving back, step by step, against answers that a server would hardly ever give."""

from typing import Any

import pytest

from holdfast.core.messages import DONE, NOT_YOURS, Answer, Extend, Release
from holdfast.engines.etcd import books as bookkeeping
from holdfast.engines.etcd.books import Books
from holdfast.engines.etcd.keeping import Keeping
from holdfast.engines.etcd.keys import place_of
from holdfast.engines.etcd.phrases import KeepAlives
from holdfast.engines.etcd.protocol import _messages
from holdfast.engines.etcd.vigil import Vigil

FENCE = 7


@pytest.fixture
def books() -> Books:
    """Of a client in which ann holds the door."""
    books = Books(lambda holder: None, lambda: 0.0)
    ann = books.stake("ann", place_of("door", "ann"))
    ann.hold(ann.new_lease(), 60, FENCE)
    return books


@pytest.fixture
def keeping(books: Books) -> Keeping:
    return Keeping(books, Vigil(lambda holder: None, lambda holder: None))


def reply(name: str, **words: Any) -> Any:
    return _messages[f"{name}Response"](**words)


def extend(keeping: Keeping, lease: int, ttl: float, *replies: Any) -> tuple[list[Any], Answer]:
    """What is said to extend ann's lease, if these are the replies; and the answer."""
    kept = reply("Range", kvs=[{"create_revision": FENCE, "lease": lease}])
    talk = keeping.extend([Extend("door", "ann", ttl, FENCE)])
    steps = [next(talk)]
    try:
        for each in (kept, *replies):
            steps.append(talk.send(each))  # noqa: PERF401 - it ends by an exception
    except StopIteration as end:
        [answer] = end.value
        return steps, answer
    raise AssertionError(f"it goes on: {steps[-1]}")


def test_in_its_last_second_a_lease_can_still_be_extended(books: Books, keeping: Keeping) -> None:
    """The server tells how many whole seconds are left: 0 is not the end yet."""
    lease = books.stakes["ann"].lease
    last_second = reply("LeaseTimeToLive", TTL=0, grantedTTL=60)
    moved = reply("Txn", succeeded=True, header={"revision": 9})
    steps, answer = extend(
        keeping, lease, 90, last_second, [60], reply("LeaseGrant"), moved, reply("LeaseRevoke")
    )
    assert answer is DONE
    assert steps[2] == KeepAlives([lease])
    assert books.stakes["ann"].lease != lease


def test_a_lease_that_ended_is_not_brought_back(books: Books, keeping: Keeping) -> None:
    lease = books.stakes["ann"].lease
    _, answer = extend(keeping, lease, 90, reply("LeaseTimeToLive", TTL=0, grantedTTL=60), [0])
    assert answer is NOT_YOURS


def test_a_key_is_never_hung_on_a_shorter_lease(books: Books, keeping: Keeping) -> None:
    """Another thread may have renewed the longer one in this very moment, and count on it."""
    lease = books.stakes["ann"].lease
    _, answer = extend(keeping, lease, 10, reply("LeaseTimeToLive", TTL=5, grantedTTL=60), [60])
    assert answer is DONE
    assert books.stakes["ann"].lease == lease


def test_farewells_that_nobody_hears_are_not_remembered_for_ever(
    books: Books, keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bookkeeping, "MOST_UNHEARD", 10)
    for number in range(30):
        stake = books.stake(f"ben {number}", b"place")
        stake.session = books.open_session()
        assert books.anybody_waits()
        for _ in range(2):  # it is tried again
            talk = keeping.release([Release("door", f"ben {number}")])
            next(talk)
            talk.close()
        assert not books.anybody_waits(), "who wanted to leave waits no more"
    assert set(books.stakes) == {"ann", *(f"ben {number}" for number in range(20, 30))}
