"""A master behind sentinels: it is found, and followed when it changes."""

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast import EngineUnavailable, LockError
from holdfast.lab.servers.process import HOST
from holdfast.lab.servers.redis import RedisServer
from tests.engines.redis.conftest import Invite
from tests.engines.redis.party import Mode, Party
from tests.equipment.servers.sentinel import SentinelSet
from tests.patience import wait_for

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def _watched() -> Iterator[SentinelSet]:
    # Frozen for a while, a server is not to be given up.
    with SentinelSet(password="a-secret", down_after=3.0) as watched:
        yield watched


@pytest.fixture
def watched(_watched: SentinelSet) -> Iterator[SentinelSet]:
    for member in _watched.members():
        member.start()
    _watched.settle()
    _watched.master.command("FLUSHALL")
    yield _watched
    for member in _watched.members():
        if member.alive:
            member.thaw()


def replica_of(watched: SentinelSet) -> RedisServer:
    return next(server for server in watched.servers if server is not watched.master)


def caught_up(watched: SentinelSet) -> bool:
    """Whether the replica knows all that the master knows."""
    master, replica = (each.info("replication") for each in (watched.master, replica_of(watched)))
    return master["master_repl_offset"] == replica["slave_repl_offset"]


def test_the_master_is_the_node(watched: SentinelSet, invite: Invite) -> None:
    ann = invite(watched.url)
    [node] = ann(ann.client.nodes)
    assert (node.name, node.error, node.margin) == (f"the master of {watched.service}", "", None)


def test_a_forced_failover_is_followed(watched: SentinelSet, invite: Invite) -> None:
    ann, ben = invite(watched.url, ttl=6), invite(watched.url)
    lease = ann.takes()
    told: list[Any] = []
    lease.on_lost(told.append)
    wait_for(lambda: caught_up(watched))
    former = watched.master
    assert watched.fail_over() is not former

    later = ben.takes("another", timeout=10)
    ben(later.release)
    if ben.tries() is None:  # it came over
        ann(lease.extend)
        ann(lease.release)
    else:
        wait_for(lambda: told)
        assert lease.lost
        with pytest.raises(LockError):
            ann(lease.release)


def test_what_a_silent_master_does_late_is_undone(watched: SentinelSet, invite: Invite) -> None:
    ann, ben = invite(watched.url), invite(watched.url)
    ann(ann.takes().release)
    watched.master.freeze()
    with pytest.raises(EngineUnavailable):
        ann(ann.client.lock("job", ttl=60).acquire, timeout=0.5)
    watched.master.thaw()
    wait_for(lambda: ben.tries() is not None)  # which is given up long before the ttl is over


def test_a_killed_master_is_replaced(watched: SentinelSet, invite: Invite) -> None:
    ann = invite(watched.url, ttl=20)
    lease = ann.takes()
    wait_for(lambda: caught_up(watched))
    victim = watched.kill_master()
    assert "sentinel" not in str(ann.refused("another")), "they answer; the master does not"
    master = watched.wait_for_master(other_than=victim)
    ann(lease.extend, ttl=30)
    assert master.command("GET", "holdfast:job") == lease.holder
    ann(lease.release)


def test_a_demoted_master_that_goes_on_answering_is_left(
    watched: SentinelSet, invite: Invite
) -> None:
    ann = invite(watched.url)
    ann(ann.takes().release)
    former, master = watched.master, replica_of(watched)
    wait_for(lambda: caught_up(watched))
    for sentinel in watched.sentinels:
        sentinel.command("SENTINEL", "REMOVE", watched.service)
    master.command("REPLICAOF", "NO", "ONE")
    former.command("REPLICAOF", HOST, master.port)
    watched.servers.sort(key=lambda server: server is former)
    watched.unite()

    lease = ann.takes(timeout=5)
    assert master.command("GET", "holdfast:job") == lease.holder
    ann(lease.release)


def test_sentinels_that_do_not_answer_cost_some_time_and_no_more(
    watched: SentinelSet, invite: Invite
) -> None:
    first, second, third = watched.sentinels
    first.freeze()
    second.kill()
    ann = invite(watched.url, ttl=15)
    ann(ann.takes().release)
    third.freeze()
    ben = invite(watched.url, ttl=3)
    [why] = ben.refused().values()
    assert "sentinel" in why or "timed out" in why


def test_a_service_that_no_sentinel_knows(watched: SentinelSet, invite: Invite) -> None:
    ann = invite(watched.url.replace("/holdfast", "/nonesuch"))
    [why] = ann.refused().values()
    assert why.count("it knows of no master of 'nonesuch'") == 3


def test_sentinels_have_users_of_their_own(watched: SentinelSet, invite: Invite) -> None:
    for sentinel in watched.sentinels:
        sentinel.command("ACL", "SETUSER", "watcher", "on", ">hush", "allcommands", "allchannels")
    ann = invite(f"{watched.url}?sentinel_password=hush", sentinel_username="watcher")
    ann(ann.takes().release)
    assert "hush" not in ann.client.url
    ben = invite(watched.url, sentinel_username="watcher", sentinel_password="hush!")
    [why] = ben.refused().values()
    assert why.count("invalid username-password pair") == 3
    assert "hush" not in why


@pytest.mark.parametrize("wanted", [1, 2])
def test_replicas_acknowledge(watched: SentinelSet, invite: Invite, wanted: int) -> None:
    ann, ben = invite(watched.url, replicas=wanted), invite(f"{watched.url}?replicas=1")
    if wanted == 1:
        lease = ann.takes()
        assert replica_of(watched).command("GET", "holdfast:job") == lease.holder
        ann(lease.extend)
        ann(lease.release)
    else:
        [why] = ann.refused().values()
        # The one that there is may be slow.
        assert why in [f"{count} of 2 replicas acknowledged it" for count in (0, 1)]
    lease = ben.tries()
    assert lease, "nothing remained held"
    ben(lease.release)


def test_waiting_for_replicas_overwrites_no_lock(watched: SentinelSet, invite: Invite) -> None:
    ann, ben = (invite(watched.url, prefix="", replicas=1) for _ in range(2))
    lease = ann.takes("{job}:wait")
    ben(ben.takes("job").release)
    assert ben.tries("{job}:wait") is None
    ann(lease.release)


def test_a_replica_that_is_silent_does_not_acknowledge(
    watched: SentinelSet, invite: Invite
) -> None:
    ann, ben = invite(watched.url, replicas=1), invite(watched.url)
    ann(ann.takes().release)
    replica = replica_of(watched)
    replica.freeze()
    assert list(ann.refused().values()) == ["0 of 1 replicas acknowledged it"]
    lease = ben.tries()
    assert lease, "nothing remained held"
    ben(lease.release)
    replica.thaw()
    ann(ann.takes(timeout=5).release)


def test_what_it_promises(mode: Mode) -> None:
    ann = Party(mode, "redis+sentinel://nowhere/service/3", replicas=1)
    promises = ann.client.guarantees
    assert "Sentinel" in promises.engine
    assert "failover" in promises.broken_by[0]
    assert ann.client.url == "redis+sentinel://nowhere/service/3"
    with pytest.raises(EngineUnavailable):
        ann.tries(ttl=1)
    ann.close()
