"""Tries for one lock over connections that break: what is late of one must not undo the next, and
what was released must not be asked for again."""

from collections.abc import Iterator, Sequence

import pytest

from holdfast.engines.redis.protocol import SCRIPTS, script
from holdfast.lab.servers.redis import RedisServer
from tests.engines.redis.conftest import Invite
from tests.engines.redis.party import Party, holders, warm_up
from tests.equipment.servers.masters import RedisMasters
from tests.equipment.servers.proxy import Proxy
from tests.patience import wait_for

LONG = 55.0
"""A ttl that a test does not outlast."""


@pytest.fixture
def proxies(three: RedisMasters) -> Iterator[Sequence[Proxy]]:
    """In front of a majority of the nodes."""
    with Proxy(three.servers[1].port) as one, Proxy(three.servers[2].port) as other:
        yield one, other


@pytest.fixture
def ann(three: RedisMasters, proxies: Sequence[Proxy], invite: Invite) -> Party:
    """A client that reaches the majority through the proxies, and has done so."""
    hosts = ",".join([three.servers[0].address, *(proxy.address for proxy in proxies)])
    party = invite(f"redlock://{hosts}?restart_guard=off", ttl=LONG)
    warm_up(party, three)
    return party


def fences(servers: Sequence[RedisServer]) -> list[int]:
    return [int(str(server.command("GET", "{holdfast:job}:fence"))) for server in servers]


def calls(server: RedisServer) -> int:
    """How many scripts it has run since its counters were reset."""
    found = server.info("commandstats").get("cmdstat_evalsha", "calls=0,")
    return int(found.partition("calls=")[2].partition(",")[0])


def test_a_late_release_of_an_earlier_try_does_not_undo_a_vote(
    three: RedisMasters, proxies: Sequence[Proxy], ann: Party, invite: Invite
) -> None:
    first = three.servers[0]
    first.command("CONFIG", "RESETSTAT")
    for proxy in proxies:
        proxy.hold("requests")
    taking = ann.begin(ann.client.lock("job").acquire, timeout=30)
    # The acquire of a try, its release, and the acquire of the next one: so the release is out.
    wait_for(lambda: calls(first) >= 3)
    for proxy in proxies:
        proxy.strand()
    lease = taking.result(30)
    # One of them may have been connected to too late to have a vote.
    voters = [each for each in three.servers if holders([each]) == [lease.holder]]
    assert len(voters) >= 2

    for proxy in proxies:
        assert proxy.waiting("requests") > 0
        proxy.release()
    wait_for(lambda: not any(proxy.waiting("requests") for proxy in proxies))
    assert set(holders(voters)) == {lease.holder}
    assert set(fences(voters)) == {lease.fence}, "nor was it undone and granted again"
    ben = invite(f"{three.url}?restart_guard=off", ttl=LONG)
    assert ben.insists(ben.client.lock("job").acquire, False) is None
    ann.drops(lease)
    wait_for(lambda: set(holders(voters)) == {None})


def test_a_try_does_not_wait_for_a_vote_of_its_own_that_it_could_not_give_back(
    three: RedisMasters, proxies: Sequence[Proxy], ann: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It gives up when the replies are lost, not for want of time: its release would get through.
    monkeypatch.setattr("holdfast.engines.redis.LEAST_NODE_TIMEOUT", 10.0)
    monkeypatch.setattr("holdfast.engines.redis.MOST_NODE_TIMEOUT", 10.0)
    first = three.servers[0]
    first.command("CONFIG", "RESETSTAT")
    for proxy in proxies:
        proxy.hold("replies")
    taking = ann.begin(ann.client.lock("job").acquire, timeout=30)
    wait_for(lambda: all(holders(three.servers[1:])))
    for proxy in proxies:
        proxy.lose_replies()
        proxy.reset()
    wait_for(lambda: calls(first) >= 3)  # as above: it is at its next try
    for proxy in proxies:
        proxy.heal()
    lease = taking.result(30)
    assert holders(three.servers).count(lease.holder) >= 2
    ann.drops(lease)
    wait_for(lambda: holders(three.servers).count(None) >= 2)


def test_what_was_given_back_is_not_asked_for_again(three: RedisMasters, invite: Invite) -> None:
    """A node has lost the scripts, and another client loads them after the acquire has come to
    nothing, and before its release comes. An acquire that were sent again now would stay."""
    forgetful = three.servers[0]
    with Proxy(forgetful.port) as proxy:
        hosts = ",".join([proxy.address, *(server.address for server in three.servers[1:])])
        party = invite(f"redlock://{hosts}?restart_guard=off", ttl=LONG)
        warm_up(party, three)
        forgetful.command("SCRIPT", "FLUSH")
        proxy.hold("replies")
        lease = party.takes("ghost")
        wait_for(lambda: proxy.waiting("replies"))
        for name in SCRIPTS:
            forgetful.command("SCRIPT", "LOAD", script(name).source.decode())
        refusal = proxy.waiting("replies")
        party.drops(lease)
        wait_for(lambda: proxy.waiting("replies") > refusal)
        proxy.release()
        warm_up(party, three)
        assert holders(three.servers, "ghost") == [None] * 3
