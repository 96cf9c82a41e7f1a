"""Readers and writers over a quorum of real nodes."""

from concurrent.futures import as_completed
from typing import Any

import pytest

import holdfast
from holdfast import LockLost, Unsupported
from holdfast.core.messages import Acquire, Held, Inspect, Listing, Release
from tests.engines.redis.conftest import Invite
from tests.engines.redis.party import Bare, Party
from tests.equipment.servers.masters import RedisMasters
from tests.patience import wait_for

OPTIONS = "?restart_guard=off&node_timeout=2"
LONG = 55.0
"""A ttl that a test does not outlast, so that what is gone was given back."""
LOCK, MEMBERS = "holdfast:job", "{holdfast:job}:members"
QUEUE, NEXT = "{holdfast:job}:queue", "{holdfast:job}:queue:writer"


def tries_to_read(party: Party) -> Any:
    return party(party.client.rwlock("job").read.acquire, blocking=False)


def values(masters: RedisMasters, *command: str) -> list[object]:
    return [server.command(*command) for server in masters.servers]


def is_next(masters: RedisMasters) -> bool:
    """Whether a majority has a writer that readers wait behind."""
    return values(masters, "EXISTS", NEXT).count(1) >= 2


def polls(masters: RedisMasters) -> bool:
    """Whether that writer is known to poll, and not to listen: from its second request on."""
    return sum(str(each).startswith(" ") for each in values(masters, "GET", NEXT)) >= 2


def names(members: object) -> list[str]:
    assert isinstance(members, list)
    return [str(each) for each in members]


def waiters(masters: RedisMasters) -> list[str]:
    """All that wait on any node."""
    queues = values(masters, "ZRANGE", QUEUE, "0", "-1")
    return sorted({each for queue in queues for each in names(queue)})


@pytest.fixture
def parties(three: RedisMasters, invite: Invite) -> list[Party]:
    """Three clients, connected to every node."""
    found = [invite(three.url + OPTIONS, ttl=LONG) for _ in range(3)]
    for party in found:
        for _ in range(2):
            party(party.takes("warm-up").release)
    return found


def test_other_clients_of_redlock_are_kept_out_while_readers_have_it(
    three: RedisMasters, parties: list[Party]
) -> None:
    """To them the marker is a holder that is not theirs: to `SET NX`, and to a release that
    compares the holder."""
    lease = parties[0].reads()
    wait_for(lambda: values(three, "GET", LOCK) == ["shared 0"] * 3)
    assert values(three, "SET", LOCK, "foreign", "NX", "PX", "1000") == [None] * 3
    bare = Bare(three.servers[0])
    assert isinstance(bare.ask(Acquire(LOCK, "foreign", LONG))[0], Held)
    bare.ask(Release(LOCK, "foreign"))
    bare.close()
    assert values(three, "GET", LOCK) == ["shared 0"] * 3
    parties[0](lease.release)
    wait_for(lambda: values(three, "EXISTS", LOCK, MEMBERS) == [0] * 3)


def test_a_reader_is_restored_on_a_node_that_lost_it_also_beside_others(
    three: RedisMasters, parties: list[Party]
) -> None:
    ann, ben, cleo = parties
    first, second = ann.reads(), ben.reads()
    wait_for(lambda: values(three, "ZCARD", MEMBERS) == [2] * 3)
    three.servers[0].command("FLUSHALL")
    third = cleo.reads()
    wait_for(lambda: three.servers[0].command("ZCARD", MEMBERS) == 1)
    for party, lease in ((ann, first), (ben, second)):
        party(lease.extend)
    members = three.servers[0].command("ZRANGE", MEMBERS, 0, -1)
    assert sorted(names(members)) == sorted((first.holder, second.holder, third.holder))
    counter = int(str(three.servers[0].command("GET", "{holdfast:job}:fence")))
    assert counter >= max(first.fence, second.fence)
    for party, lease in ((ann, first), (ben, second), (cleo, third)):
        party(lease.release)
    wait_for(lambda: values(three, "EXISTS", LOCK, MEMBERS) == [0] * 3)
    writing = ann.takes("job")
    assert writing.fence > max(first.fence, second.fence, third.fence)
    ann(writing.release)


def test_a_reader_that_a_majority_lost_is_lost(three: RedisMasters, parties: list[Party]) -> None:
    """Though other readers have those nodes."""
    ann, ben, _ = parties
    lease = ann.reads()
    wait_for(lambda: values(three, "ZCARD", MEMBERS) == [1] * 3)
    for server in three.servers[:2]:
        server.command("FLUSHALL")
    other = ben.reads()
    with pytest.raises(LockLost):
        ann(lease.extend)
    ben(other.release)


def test_readers_wait_behind_a_writer_that_waits(three: RedisMasters, parties: list[Party]) -> None:
    """Or readers that keep coming would keep it out."""
    ann, ben, cleo = parties
    first = ann.reads()
    writing = ben.begin(ben.client.rwlock("job").write.acquire, timeout=30.0)
    wait_for(lambda: is_next(three))
    assert tries_to_read(cleo) is None
    ann(first.extend)
    reading = cleo.begin(cleo.client.rwlock("job").read.acquire, timeout=30.0)
    wait_for(lambda: values(three, "ZCARD", "{holdfast:job}:queue").count(2) >= 2)
    ann(first.release)
    lease = writing.result(30.0)
    assert not reading.done()
    # The third node may have met an attempt of the reader's before the writer's.
    wait_for(lambda: not is_next(three))
    ben(lease.release)
    last = reading.result(30.0)
    assert last.fence > lease.fence > first.fence
    cleo(last.release)


def deaf_writer(masters: RedisMasters, invite: Invite) -> Party:
    """A client that may not subscribe, and so polls."""
    for server in masters.servers:
        rights = ("~*", "&*", "+@all", "-subscribe")
        server.command("ACL", "SETUSER", "deaf", "reset", "on", ">x", *rights)
    party = invite(f"redlock://deaf:x@{masters.url.removeprefix('redlock://')}{OPTIONS}", ttl=LONG)
    party(party.takes("warm-up").release)
    return party


def test_readers_wait_behind_a_writer_that_polls(
    three: RedisMasters, parties: list[Party], invite: Invite
) -> None:
    ann, ben, _ = parties
    writer = deaf_writer(three, invite)
    first = ann.reads()
    writing = writer.begin(writer.client.rwlock("job").write.acquire, timeout=30.0)
    wait_for(lambda: polls(three))
    assert tries_to_read(ben) is None
    reading = ben.begin(ben.client.rwlock("job").read.acquire, timeout=30.0)
    wait_for(lambda: values(three, "ZCARD", f"{QUEUE}:kinds").count(1) >= 2)
    ann(first.release)
    lease = writing.result(30.0)
    assert not reading.done()
    wait_for(lambda: not is_next(three))
    writer(lease.release)
    last = reading.result(30.0)
    assert last.fence > lease.fence > first.fence
    ben(last.release)


def test_a_writer_that_polls_lets_the_readers_in_when_it_gives_up(
    three: RedisMasters, parties: list[Party], invite: Invite
) -> None:
    ann, ben, _ = parties
    writer = deaf_writer(three, invite)
    first = ann.reads()
    writing = writer.begin(writer.client.rwlock("job").write.acquire, timeout=3.0)
    wait_for(lambda: polls(three))
    assert writing.result(30.0) is None
    assert values(three, "EXISTS", NEXT).count(0) >= 2
    second = tries_to_read(ben)
    assert second
    for party, lease in ((ann, first), (ben, second)):
        party(lease.release)


def test_a_writer_that_polled_and_died_keeps_readers_out_for_a_moment(
    three: RedisMasters, parties: list[Party]
) -> None:
    """Not for as long as other readers have the lock."""
    ann, ben, _ = parties
    first = ann.reads()
    wait_for(lambda: values(three, "ZCARD", MEMBERS) == [1] * 3)
    for server in three.servers:
        bare = Bare(server)
        bare.ask(Acquire(LOCK, "dead", LONG, queue=True), wakes=False)
        bare.close()
    assert tries_to_read(ben) is None
    second = ben.reads()
    for party, lease in ((ann, first), (ben, second)):
        party(lease.release)


def test_a_reader_sees_a_lock_that_is_held_if_each_node_has_another_writer_next(
    three: RedisMasters, parties: list[Party]
) -> None:
    """Writers that come at once are each the first on some nodes: that is no split vote."""
    ann, ben, cleo = parties
    first = ann.reads()
    write = ben.client.rwlock("job").write
    writing = [ben.begin(write.acquire, timeout=30.0) for _ in range(3)]
    wait_for(lambda: len(waiters(three)) == 3)
    for server, waiter in zip(three.servers, waiters(three), strict=True):
        server.command("SET", NEXT, waiter, "PX", "50000")
    assert tries_to_read(cleo) is None
    ann(first.release)
    for each in as_completed(writing, 30.0):
        ben(each.result().release)


def test_a_writer_that_gives_up_lets_the_readers_in(
    three: RedisMasters, parties: list[Party]
) -> None:
    ann, ben, cleo = parties
    first = ann.reads()
    writing = ben.begin(ben.client.rwlock("job").write.acquire, timeout=3.0)
    wait_for(lambda: is_next(three))
    reading = cleo.begin(cleo.client.rwlock("job").read.acquire, timeout=30.0)
    assert writing.result(30.0) is None
    lease = reading.result(30.0)
    wait_for(lambda: values(three, "EXISTS", NEXT) == [0] * 3)
    ann(first.release)
    cleo(lease.release)


def test_a_writer_is_woken_when_attempts_to_read_end_that_had_a_majority_together(
    three: RedisMasters, parties: list[Party]
) -> None:
    """None of them was on so many nodes that others had to be woken for it alone."""
    ann, _, _ = parties
    attempts = [(Bare(server), f"reader-{server.port}") for server in three.servers[:2]]
    for bare, reader in attempts:
        bare.ask(Acquire(LOCK, reader, LONG, shares=0))
    writing = ann.begin(ann.client.rwlock("job").write.acquire, timeout=30.0)
    wait_for(lambda: is_next(three))
    for bare, reader in attempts:
        bare.ask(Release(LOCK, f"{reader}#0", wake=False))
        bare.close()
    ann(writing.result(30.0).release)


def test_a_writer_that_died_keeps_no_reader_out(three: RedisMasters, parties: list[Party]) -> None:
    ann, ben, _ = parties
    first = ann.reads()
    wait_for(lambda: values(three, "ZCARD", MEMBERS) == [1] * 3)
    for server in three.servers:
        server.command("SET", NEXT, "holdfast:gone somebody", "PX", "50000")
    second = tries_to_read(ben)
    assert second
    for party, lease in ((ann, first), (ben, second)):
        party(lease.release)


def test_a_member_that_only_a_minority_has_is_no_holder(
    three: RedisMasters, parties: list[Party]
) -> None:
    ann, ben, _ = parties
    lease = ann.reads()
    wait_for(lambda: values(three, "ZCARD", MEMBERS) == [1] * 3)
    bare = Bare(three.servers[0])
    bare.ask(Acquire(LOCK, "alone", LONG, shares=0))
    [listing] = bare.ask(Inspect(LOCK))
    assert isinstance(listing, Listing)
    assert len(listing.leases[0].others) == 1
    bare.close()
    info = ben(ben.client.inspect, "job")
    assert [member.holder for member in info.members] == [lease.holder]
    assert (info.shares, info.fence) == (0, lease.fence)
    ann(lease.release)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_semaphore_is_refused_with_the_reason(mode: str) -> None:
    url = "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"
    client: Any = holdfast.Client(url) if mode == "sync" else holdfast.AsyncClient(url)
    with pytest.raises(Unsupported, match=r"AB, AC and BC.*use one server"):
        client.semaphore("exports", 2)
    client.semaphore("exports", 1)
    client.rwlock("prices")
