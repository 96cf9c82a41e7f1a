"""`lease.guard(connection)`: a user's own transaction, tied to the lease that it relies on."""

import contextlib
import random
import threading
from typing import Any

import pytest

import holdfast
from tests.engines.redis.party import Party
from tests.engines.sql.databases import CONFLICTS, Database
from tests.engines.sql.users import (
    EACH_KIND,
    LEVELS,
    READ_COMMITTED,
    REPEATABLE_READ,
    SERIALIZABLE,
    WAYS,
    Transaction,
    Way,
)
from tests.patience import wait_for

pytestmark = pytest.mark.slow

LONG = 30.0
"""A ttl that no test sees the end of."""

SHORT = 0.3
"""One that ends soon."""

EACH_LEVEL = pytest.mark.parametrize(
    ("kind", "way", "level"),
    [
        *((kind, ways[0], level) for kind, ways in WAYS.items() for level in LEVELS),
        *((kind, ways[1], REPEATABLE_READ) for kind, ways in WAYS.items()),
    ],
    ids=str,
)
"""By a library for threads, and once by one for asyncio."""


def take_away(ben: Party) -> None:
    """Have ben hold the lock, while ann believes that it is hers."""
    ben(ben.client.break_lock, "job")
    assert ben.tries(ttl=LONG)


@EACH_LEVEL
class TestWhileItIsOpen:
    def test_nobody_takes_a_lease_over_that_has_ended(
        self, database: Database, ann: Party, ben: Party, transaction: Transaction
    ) -> None:
        lease = ann.takes(ttl=SHORT, renew=False)
        transaction.guard(lease)
        transaction.say("UPDATE stock SET units = units - 1")
        wait_for(database.has_ended)
        waiting = ben.begin(ben.client.lock("job", ttl=LONG).acquire)
        for _ in range(3):
            assert ben.tries() is None  # and is not kept waiting for the transaction
        assert not waiting.done()
        transaction.commit()
        later = waiting.result(10)
        assert later.fence > lease.fence
        assert database.units() == 9
        with pytest.raises(holdfast.LockLost):
            transaction.guard(lease)
        ben(later.release)

    def test_renewals_go_on_and_it_may_be_said_again(
        self, database: Database, ann: Party, ben: Party, transaction: Transaction
    ) -> None:
        lease = ann.takes(ttl=3.0)
        transaction.guard(lease)
        transaction.say("UPDATE stock SET units = units - 1")
        end = database.end()
        wait_for(lambda: database.end() > end or lease.lost)
        assert ben.tries() is None
        ann(lease.extend, LONG)
        transaction.guard(lease)  # though the row has changed meanwhile
        transaction.commit()
        transaction.guard(lease)
        transaction.rollback()
        ann(lease.release)


@EACH_KIND
class TestGivenUp:
    def test_nobody_takes_it_when_it_was_broken(
        self, ann: Party, ben: Party, transaction: Transaction
    ) -> None:
        lease = ann.takes(ttl=LONG, renew=False)
        transaction.guard(lease)
        assert ben(ben.client.break_lock, "job")
        assert ben.tries() is None
        transaction.rollback()
        assert ben.takes().fence > lease.fence

    def test_nobody_takes_it_when_it_was_released(
        self, ann: Party, ben: Party, transaction: Transaction
    ) -> None:
        lease = ann.takes(ttl=LONG)
        transaction.guard(lease)
        waiting = ben.begin(ben.client.lock("job", ttl=LONG).acquire)
        wait_for(lambda: ben(ben.client.inspect, "job").waiters in (1, None))
        ann(lease.release)
        assert ben.tries() is None
        assert not waiting.done()
        transaction.commit()
        ben(waiting.result(10).release)


@EACH_LEVEL
class TestAfterATakeover:
    def test_nothing_can_be_committed(
        self, ann: Party, ben: Party, transaction: Transaction
    ) -> None:
        told: list[Any] = []
        lease = ann.takes(ttl=LONG, renew=False)
        ann(lease.on_lost, told.append)
        take_away(ben)
        with pytest.raises(holdfast.LockLost, match="'job'"):
            transaction.guard(lease)
        transaction.rollback()
        assert lease.lost
        wait_for(lambda: told == [lease])

    def test_nor_in_a_transaction_that_saw_the_lease_before(
        self, ann: Party, ben: Party, transaction: Transaction
    ) -> None:
        lease = ann.takes(ttl=LONG, renew=False)
        transaction.say("SELECT units FROM stock")
        take_away(ben)
        with pytest.raises(holdfast.LockLost):
            transaction.guard(lease)
        transaction.rollback()

    def test_a_guard_waits_for_a_takeover_that_is_under_way(
        self, database: Database, kind: str, ann: Party, transaction: Transaction
    ) -> None:
        """A takeover is one statement. Here it takes longer."""
        lease = ann.takes(ttl=LONG, renew=False)
        here = WAYS[kind][0].begin(lambda call, *values: call(*values), database.url)
        with contextlib.closing(here) as usurper:
            usurper.say("UPDATE holdfast_leases SET fence = fence + 1, holder = 'other'")
            guarding = threading.Thread(target=self._is_refused, args=(transaction, lease))
            guarding.start()
            wait_for(lambda: database.is_blocking() or not guarding.is_alive())
            assert guarding.is_alive()
            usurper.commit()
        guarding.join(10)
        assert lease.lost

    def _is_refused(self, transaction: Transaction, lease: Any) -> None:
        with pytest.raises(holdfast.LockLost):
            transaction.guard(lease)
        transaction.rollback()


@EACH_LEVEL
def test_a_transaction_that_is_older_than_the_lease(
    kind: str, ann: Party, transaction: Transaction, level: str
) -> None:
    ann(ann.takes("another").release)  # so that there is a table
    transaction.say("SELECT units FROM stock")
    lease = ann.takes(ttl=LONG, renew=False)
    sees_the_past = level == REPEATABLE_READ or (level == SERIALIZABLE and kind == "postgres")
    if sees_the_past:
        with pytest.raises(ValueError, match=r"^connection: .* began before the lease"):
            transaction.guard(lease)
    else:
        transaction.guard(lease)
    transaction.rollback()
    assert lease.held


@pytest.mark.parametrize(
    ("kind", "level"),
    [("postgres", READ_COMMITTED), ("mariadb", READ_COMMITTED), ("mariadb", REPEATABLE_READ)],
)
def test_no_update_is_lost_when_leases_end_in_the_midst_of_transactions(
    database: Database, kind: str, level: str
) -> None:
    """Where the database itself would not keep anybody from writing what is old."""
    sellers = [Seller(WAYS[kind][0], database.url, level, seed) for seed in range(3)]
    for seller in sellers:
        seller.start()
    for seller in sellers:
        seller.join(60)
    sold = sum(seller.sold for seller in sellers)
    assert sold
    assert database.units() == 10 - sold


class Seller(threading.Thread):
    """Reads how many units there are, dawdles for about a ttl, and writes one less."""

    def __init__(self, way: Way, url: str, level: str, seed: int) -> None:
        super().__init__()
        self.sold = 0
        self._way, self._url, self._level, self._random = way, url, level, random.Random(seed)

    def run(self) -> None:
        party = Party("sync", self._url)
        own = self._way.begin(party, self._url, self._level)
        for _ in range(5):
            lease = party.insists(party.client.lock("job", ttl=SHORT, renew=False).acquire)
            try:
                own.guard(lease)
                self._sell(own)
            except (holdfast.LockError, *CONFLICTS):
                own.rollback()
            with contextlib.suppress(holdfast.LockError):  # by now it may be another's
                lease.release()
        own.close()
        party.close()

    def _sell(self, own: Transaction) -> None:
        [(found,)] = own.say("SELECT units FROM stock")
        threading.Event().wait(self._random.uniform(0, 1.5 * SHORT))
        own.say(f"UPDATE stock SET units = {found - 1}")
        own.commit()
        self.sold += 1


@pytest.mark.parametrize(("kind", "way"), [("postgres", WAYS["postgres"][0])])
def test_postgresql_refuses_a_lease_that_was_broken_also_while_nobody_has_the_lock(
    ann: Party, ben: Party, transaction: Transaction
) -> None:
    lease = ann.takes(ttl=LONG, renew=False)
    assert ben(ben.client.break_lock, "job")
    with pytest.raises(holdfast.LockLost):
        transaction.guard(lease)
    transaction.rollback()
    assert ben.takes().fence > lease.fence
