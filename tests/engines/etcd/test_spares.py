"""Leases that are used again, on a clock that stands still unless it is told to move on."""

import pytest

from holdfast.core.messages import DONE, NOT_YOURS, Granted
from holdfast.engines.etcd import drift, spares
from holdfast.engines.etcd.keys import place_of
from holdfast.engines.etcd.protocol import LEASE_GRANT, LEASE_REVOKE, TXN, _messages
from holdfast.engines.etcd.replies import NO_SUCH_LEASE, Refused
from holdfast.engines.etcd.spares import LINGER, LONGEST, MOST, OLDEST, Spares, oldest

from .obliging import PAIR, TTL, Client

GONE = Refused(NO_SUCH_LEASE, "requested lease not found")
NEW = [LEASE_GRANT, TXN]


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def quick(client: Client) -> Client:
    """One that has a spare, and in which ann has taken the lock with it."""
    client.pairs(2)
    assert client.has_spare
    assert isinstance(client.acquire("ann"), Granted)
    assert client.said == [TXN]
    assert not client.has_spare
    return client


def test_in_a_loop_one_lease_is_used_again(client: Client) -> None:
    client.pairs(20)
    first, *others = client.leases
    assert first not in others
    assert len(set(others)) == 1


def test_a_lock_that_is_taken_now_and_then_costs_what_it_cost(client: Client) -> None:
    for number in range(3):
        client.acquire(f"holder {number}")
        assert client.said == NEW
        client.release(f"holder {number}")
        assert client.said == [LEASE_REVOKE]
        client.now += LINGER
    assert not client.has_spare


def test_no_holder_believes_in_more_than_the_servers_give() -> None:
    """However long the ttl, and whenever the spare is asked for: a lease that counts from its grant
    outlasts a validity that counts from before the asking."""
    for ttl in (2, 5, 30, LONGEST):
        for age in (0.0, oldest(ttl) / 2, oldest(ttl) * 0.999):
            client = Client()
            client.pairs(1)
            client.acquire("ann", ttl)
            granted_at = client.now
            client.release("ann")
            client.now = began = granted_at + age
            client.acquire("ben", ttl)
            if client.said == [TXN]:
                believed = began + ttl - drift(ttl)
                assert believed <= granted_at + ttl * 0.99 - 0.002, f"{age} of {ttl}"
            else:
                assert age >= LINGER


def test_one_that_would_last_for_long_is_not_kept(client: Client) -> None:
    """Whoever ends without closing would leave it behind."""
    client.pairs(2)
    client.acquire("ann", LONGEST + 1)
    client.release("ann")
    assert client.said == [LEASE_REVOKE]


def test_a_lease_whose_key_somebody_has_written_to(quick: Client) -> None:
    """Who breaks the lock writes to it first: the lease is about to be revoked, whatever its holder
    finds out about it meanwhile."""
    stake = quick.books.stakes["ann"]
    written = {
        "key": b"door\0lock\0ann",
        "create_revision": stake.revision,
        "mod_revision": stake.revision + 9,
        "lease": stake.lease,
    }
    answer = quick.converse(
        quick.extending("ann", TTL - 1, stake.revision),
        step_0=_messages["RangeResponse"](kvs=[written]),
        step_1=_messages["LeaseTimeToLiveResponse"](TTL=1),
    )
    assert answer is DONE
    assert quick.release("ann") is DONE
    assert quick.said == [LEASE_REVOKE]
    assert not quick.has_spare


def test_a_spare_that_is_too_old_is_not_used(client: Client) -> None:
    ttl = 2
    client.pairs(1)
    client.acquire("ann", ttl)
    client.release("ann")
    assert client.has_spare
    client.now += oldest(ttl)
    client.acquire("ben", ttl)
    assert client.said == NEW


def test_its_age_counts_from_before_it_was_asked_for(client: Client) -> None:
    client.pairs(1)
    talk = client.taking("ann", ttl=2)
    grant = next(talk)
    client.now += oldest(2)  # that is how long it took
    step = talk.send(client.reply(grant))
    with pytest.raises(StopIteration):
        talk.send(client.reply(step))
    client.release("ann")
    assert client.said == [LEASE_REVOKE]


def test_a_lock_that_was_held_for_long_leaves_no_spare(quick: Client) -> None:
    quick.now += OLDEST
    quick.pairs(1)
    quick.release("ann")
    assert quick.said == [LEASE_REVOKE]


def test_a_lease_that_is_used_again_and_again_gets_no_younger(client: Client) -> None:
    client.pairs(int(3 * OLDEST / PAIR))
    assert len(set(client.leases)) >= 3


def test_one_of_another_ttl_is_not_used(client: Client) -> None:
    client.pairs(2)
    client.acquire("ann", TTL + 1)
    assert client.said == NEW
    client.acquire("ben")
    assert client.said == [TXN]


def test_one_of_the_same_lock_is_used_first() -> None:
    pool = Spares(lambda: 0.0)
    for lease, place in enumerate((b"door\0a", b"gate\0b", b"door\0c", b"cell\0d")):
        pool.keep(lease, place, TTL, granted_at=0.0)
    taken = [pool.take(TTL, b"door\0"), pool.take(TTL, b"door\0"), pool.take(TTL, b"door\0")]
    assert [each and each.place for each in taken] == [b"door\0c", b"door\0a", b"cell\0d"]


def test_the_key_of_another_lock_is_not_used(client: Client) -> None:
    client.pairs(2)
    spare = client.books.spares.take(TTL, b"")
    assert spare
    client.books.spares.keep(spare.lease, place_of("gate", "ben"), TTL, spare.granted_at)
    assert isinstance(client.acquire("ann"), Granted)
    assert client.said == [TXN]
    assert client.books.stakes["ann"].place == place_of("door", "ann")


def test_there_are_not_too_many(client: Client) -> None:
    for number in range(MOST + 10):
        client.acquire(f"holder {number}")
    for number in range(MOST + 10):
        client.release(f"holder {number}")
    assert len(client.books.spares.take_all()) == MOST


def test_each_is_used_by_one(client: Client) -> None:
    for number in range(3):
        client.acquire(f"holder {number}")
    for number in range(3):
        client.release(f"holder {number}")
    client.leases.clear()
    client.acquire("ann")
    client.acquire("ben")
    client.acquire("cleo")
    assert len(set(client.leases)) == 3


def test_what_nobody_wants_is_to_be_revoked_in_time() -> None:
    now = 0.0
    pool = Spares(lambda: now)
    pool.keep(1, b"place", TTL, granted_at=0.0)
    now = LINGER / 2
    pool.keep(2, b"place", TTL, granted_at=LINGER / 2)
    assert pool.due_in() == pytest.approx(LINGER / 2)
    assert pool.take_useless() == []
    now = LINGER
    assert pool.take_useless() == [1]
    assert pool.due_in() == pytest.approx(LINGER / 2)
    assert pool.take_all() == [2]
    assert pool.due_in() is None


def test_a_forked_child_has_none(client: Client) -> None:
    client.pairs(2)
    client.books.begin()
    assert not client.has_spare


def test_one_that_the_servers_have_ended(client: Client) -> None:
    """As a leader does that was stopped: the lock is taken with another one, and nobody notices."""
    client.pairs(2)
    ended = client.leases[-1]
    assert isinstance(client.acquire("ann", step_0=GONE), Granted)
    assert client.said == [TXN, *NEW]
    assert client.leases[-1] != ended
    assert client.release("ann") is DONE
    assert client.acquire("ben") is not None
    assert client.leases[-1] == client.leases[-2], "the other one may be used again"


def test_a_farewell_that_was_not_answered(quick: Client) -> None:
    """It may have been heard, or may come later: what comes then must find no lease."""
    quick.release("ann", step_0=None)
    assert not quick.has_spare
    assert quick.release("ann") is DONE
    assert quick.said == [LEASE_REVOKE]
    assert not quick.has_spare


def test_a_key_that_is_not_as_it_was(quick: Client) -> None:
    """It was broken, or hung on another lease: who did that revokes the lease, perhaps later."""
    refused = _messages["TxnResponse"](succeeded=False)
    assert quick.release("ann", step_0=refused) is DONE
    assert quick.said[-1] is LEASE_REVOKE
    assert not quick.has_spare


@pytest.mark.parametrize("answered", [False, True], ids=["not answered", "answered"])
def test_a_lock_that_was_asked_for_twice(client: Client, answered: bool) -> None:
    """What took it may still come, or something that was said to find out."""
    client.pairs(2)
    lease = client.leases[-1]
    if answered:
        client.acquire("ann")
    else:
        client.acquire("ann", step_0=None)
    place = client.books.stakes["ann"].place
    mine = {"key": place, "create_revision": 9, "mod_revision": 9, "lease": lease}
    found = _messages["RangeResponse"](kvs=[mine])
    replies = {"step_0": found} if answered else {"step_0": found, "step_1": found}
    assert isinstance(client.acquire("ann", **replies), Granted)
    assert client.books.stakes["ann"].leases == (lease,)
    assert client.release("ann") is DONE
    assert client.said == [LEASE_REVOKE]
    assert not client.has_spare


def test_a_lock_that_was_taken_at_the_second_try(client: Client) -> None:
    """Both leases are revoked: what hangs a key on the first one may still come."""
    client.pairs(2)
    client.acquire("ann", step_0=None)
    nothing = _messages["RangeResponse"]()
    assert isinstance(client.acquire("ann", step_0=nothing), Granted)
    assert client.release("ann") is DONE
    assert client.said == [LEASE_REVOKE] * 2


def test_a_lock_of_which_nobody_knows_whether_it_was_taken(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spares, "oldest", lambda ttl: OLDEST)
    client.pairs(2)
    client.acquire("ann", step_0=None)
    client.release("ann")
    assert client.said == [LEASE_REVOKE]
    assert not client.has_spare


def test_a_lock_that_was_extended_to_another_ttl(quick: Client) -> None:
    fence, lease = quick.books.stakes["ann"].revision, quick.leases[-1]
    mine = {"create_revision": fence, "mod_revision": fence, "lease": lease}
    found = _messages["RangeResponse"](kvs=[mine])
    life = _messages["LeaseTimeToLiveResponse"](TTL=TTL, grantedTTL=TTL)
    extending = quick.extending("ann", 2 * TTL, fence)
    assert quick.converse(extending, step_0=found, step_1=life) is DONE
    assert quick.release("ann") is DONE
    assert quick.said == [LEASE_REVOKE]


def test_while_one_gives_back_nobody_else_can(quick: Client) -> None:
    """The other one would revoke a lease that somebody uses by then."""
    first = quick.releasing("ann")
    step = next(first)
    assert quick.release("ann") is NOT_YOURS
    assert quick.said == []
    with pytest.raises(StopIteration) as end:
        first.send(quick.reply(step))
    assert end.value.value is DONE
    assert quick.has_spare


def test_several_that_are_given_back_together(quick: Client) -> None:
    """As when a client is closed: nobody wants their leases."""
    quick.acquire("ben")
    assert quick.converse(quick.releasing_all("ann", "ben")) == [DONE, DONE]
    assert quick.said == [LEASE_REVOKE] * 2
