"""Waiters that the server does not wake, and so poll, over a clock that the test turns.

PostgreSQL is the simulator's here.
"""

from collections.abc import Iterator

import pytest

from holdfast.core.messages import OFFER, Acquire, Held, Inspect, Listing, Release
from holdfast.engines.sql.commands import Commands
from holdfast.engines.sql.waiters import LONGEST_LIFE, SHORTEST_LIFE, Waiters
from tests.engines.sql.test_shares import KEY, Base, Postgres, Sqlite, fence

TTL = 100.0
RIVAL = Acquire(KEY, "rival", TTL, queue=True, shares=7)
"""It can share the lock with no other."""
KINDS = pytest.mark.parametrize("shares", [1, 0, 3], ids=["writer", "reader", "semaphore"])


@pytest.fixture(params=[Sqlite, Postgres], ids=["sqlite", "postgres"])
def base(request: pytest.FixtureRequest) -> Iterator[Base]:
    made: Base = request.param()
    yield made
    made.close()


class Poller:
    """A client whose waiters poll."""

    def __init__(self, base: Base) -> None:
        self.base = base
        self.woken: list[str] = []
        waiters = Waiters(lambda: base.now, self.woken.append)
        self.client = Commands("here", base.dialect, base.clock(), waiters)

    def waits(self, holder: str, shares: int = 1, ttl: float = TTL) -> Held:
        """It asks, and does not get it."""
        request = Acquire(KEY, holder, ttl, queue=True, shares=shares)
        answer = self.base.ask(request, self.client)
        assert isinstance(answer, Held)
        return answer

    def gets(self, holder: str, shares: int = 1) -> None:
        fence(self.base.ask(Acquire(KEY, holder, TTL, queue=True, shares=shares), self.client))

    def leaves(self, holder: str) -> None:
        self.base.ask(Release(KEY, holder), self.client)


@pytest.fixture
def poller(base: Base) -> Poller:
    """While another client has the lock."""
    fence(base.ask(Acquire(KEY, "ann", TTL)))
    return Poller(base)


def waiters(base: Base) -> int:
    """How many live."""
    listing = base.ask(Inspect(KEY))
    assert isinstance(listing, Listing)
    found = listing.leases[0].waiters
    assert found is not None
    return found


@KINDS
def test_it_has_its_offer_for_as_long_as_it_counts_as_alive(
    base: Base, poller: Poller, shares: int
) -> None:
    """A server that is slow to answer takes no turn away."""
    poller.waits("ben", shares)
    assert isinstance(base.ask(RIVAL), Held)
    base.ask(Release(KEY, "ann"))
    base.now += LONGEST_LIFE - 0.1
    assert isinstance(base.ask(RIVAL), Held)
    poller.gets("ben", shares)


def test_an_offer_that_is_counted_anew_is_not_shortened(base: Base, poller: Poller) -> None:
    """The waiter met a locked row, and asks again."""
    poller.waits("ben")
    assert isinstance(base.ask(RIVAL), Held)
    base.ask(Release(KEY, "ann"))
    base.run(poller.client._statements(base.dialect.adopt, key=KEY, holder="ben"))
    base.now += LONGEST_LIFE - 0.1
    assert isinstance(base.ask(RIVAL), Held)
    poller.gets("ben")


@KINDS
def test_one_that_died_keeps_others_out_for_no_longer(
    base: Base, poller: Poller, shares: int
) -> None:
    poller.waits("ben", shares)
    assert isinstance(base.ask(RIVAL), Held)
    base.ask(Release(KEY, "ann"))
    base.now += LONGEST_LIFE + 0.1
    fence(base.ask(RIVAL))


def test_with_a_short_ttl_it_is_taken_for_dead_sooner(base: Base, poller: Poller) -> None:
    poller.waits("ben", ttl=1.0)
    poller.waits("cleo", ttl=TTL)
    base.now += SHORTEST_LIFE + 0.1
    base.ask(Release(KEY, "ann"))
    poller.gets("cleo")


@KINDS
def test_one_that_was_granted_it_and_asks_again_does_not_join_the_queue(
    base: Base, shares: int
) -> None:
    """It has not received the grant."""
    granted = fence(base.ask(Acquire(KEY, "ben", TTL, shares=shares)))
    again = base.ask(Acquire(KEY, "ben", TTL, queue=True, shares=shares), Poller(base).client)
    assert fence(again) == granted
    assert waiters(base) == 0


@KINDS
def test_it_is_alive_to_a_statement_that_began_before_it_was_marked(
    base: Base, poller: Poller, shares: int
) -> None:
    """MariaDB's clock stands still in a statement, and a busy server may carry it out late."""
    poller.waits("ben", shares)
    base.now -= 0.1
    base.ask(Release(KEY, "ann"))
    base.now += 0.2
    assert isinstance(base.ask(Acquire(KEY, "newcomer", TTL)), Held)
    poller.gets("ben", shares)


def test_one_that_listens_has_its_offer_for_a_moment(base: Base, poller: Poller) -> None:
    request = Acquire(KEY, "ben", TTL, queue=True)
    assert isinstance(base.ask(request), Held)
    poller.waits("cleo")
    base.ask(Release(KEY, "ann"))
    base.now += OFFER + 0.1
    poller.gets("cleo")


@KINDS
def test_the_first_of_a_client_polls_for_all(base: Base, poller: Poller, shares: int) -> None:
    assert not poller.waits("ben").wakes
    for holder in ("cleo", "dora"):
        assert poller.waits(holder, shares).wakes
    for _ in range(50):
        base.now += 1.0
        assert not poller.waits("ben").wakes
    assert waiters(base) == 3
    assert poller.woken == []
    base.ask(Release(KEY, "ann"))
    poller.gets("ben")
    assert poller.woken == ["cleo"]
    assert not poller.waits("cleo", shares).wakes
    poller.leaves("ben")
    poller.woken.clear()
    poller.gets("cleo", shares)
    assert poller.woken == ["dora"]
    if shares != 1:
        poller.gets("dora", shares)


def test_all_readers_of_a_client_ask_when_the_first_has_the_lock(
    base: Base, poller: Poller
) -> None:
    """They were offered it together."""
    for holder in ("ben", "cleo", "dora"):
        poller.waits(holder, 0)
    poller.waits("writer")
    poller.waits("last", 0)
    base.ask(Release(KEY, "ann"))
    poller.gets("ben", 0)
    assert poller.woken == ["cleo", "dora", "writer"]
    for holder in ("dora", "cleo"):
        poller.gets(holder, 0)
    assert not poller.waits("writer").wakes
    assert poller.waits("last", 0).wakes


def test_another_one_polls_when_the_first_gives_up(base: Base, poller: Poller) -> None:
    for holder in ("ben", "cleo", "dora"):
        poller.waits(holder)
    poller.leaves("cleo")
    assert poller.woken == []
    poller.leaves("ben")
    assert poller.woken == ["dora"]
    assert not poller.waits("dora").wakes


def test_another_one_polls_when_the_first_is_heard_of_no_more(base: Base, poller: Poller) -> None:
    """It has given up, and its release could not be sent."""
    poller.waits("ben", ttl=1.0)
    base.now += 0.5
    assert poller.waits("cleo").remaining == LONGEST_LIFE
    base.now += SHORTEST_LIFE
    assert poller.waits("cleo").remaining < SHORTEST_LIFE
    base.now += LONGEST_LIFE
    poller.waits("cleo")
    assert waiters(base) == 1


def test_one_that_lost_its_place_asks_for_it_again(base: Base, poller: Poller) -> None:
    for holder in ("ben", "cleo", "dora"):
        poller.waits(holder)
    base.run((base.dialect.leave(holder="cleo"),))
    base.now += LONGEST_LIFE / 2
    poller.waits("ben")
    assert poller.woken == ["cleo"]
    poller.waits("cleo")
    assert waiters(base) == 3


def test_waiters_for_other_locks_poll_for_themselves(base: Base, poller: Poller) -> None:
    fence(base.ask(Acquire("another", "zoe", TTL)))
    poller.waits("ben")
    other = base.ask(Acquire("another", "cleo", TTL, queue=True), poller.client)
    assert isinstance(other, Held)
    assert not other.wakes


def test_a_waiter_asks_again_if_the_listener_came_while_it_joined(poller: Poller) -> None:
    """It would poll until then, though it could be woken."""

    class Coming(Waiters):
        address = ("", 0)

        def listener(self) -> tuple[str, int]:
            before, self.address = self.address, ("channel", 7)
            return before

    waiters = Coming(lambda: poller.base.now, poller.woken.append)
    poller.client = Commands("here", poller.base.dialect, poller.base.clock(), waiters)
    assert not poller.waits("ben").wakes
    assert poller.woken == ["ben"]
