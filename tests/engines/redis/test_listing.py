"""`leases()` in a database that holds other things, too."""

import gc
from collections.abc import Iterator
from contextlib import closing

import pytest
import redis

from holdfast.core import queries
from holdfast.core.messages import Acquire, List, Listing
from holdfast.engines.redis import inspect
from holdfast.lab.servers.redis import RedisServer
from tests.engines.redis.conftest import Invite
from tests.engines.redis.party import Bare, Party
from tests.equipment.servers.cluster import RedisCluster
from tests.equipment.servers.masters import RedisMasters

FOREIGN = 1000
NAMES = [f"job {number:02}" for number in range(25)]


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the database had millions of keys, and there were thousands of leases."""
    monkeypatch.setattr(inspect, "SCAN_STEP", b"10")
    monkeypatch.setattr(inspect, "SCAN_STEPS", 5)
    monkeypatch.setattr(queries, "PAGE", 10)


def fill(*servers: RedisServer) -> None:
    for server in servers:
        with closing(redis.Redis(port=server.port)) as client:
            client.mset({f"foreign:{number}": "x" for number in range(FOREIGN)})


def scans(server: RedisServer) -> int:
    stats = server.info("commandstats").get("cmdstat_scan", "calls=0,")
    return int(str(stats).partition("calls=")[2].partition(",")[0])


def takes_all(party: Party) -> None:
    for name in NAMES:
        party.takes(name)


def lists_all(party: Party, prefix: str = "") -> None:
    listed = [info.name for info in party(party.client.leases, prefix)]
    assert listed == [name for name in NAMES if name.startswith(prefix)]


@pytest.mark.usefixtures("small_steps")
def test_the_database_is_scanned_once_in_many_requests(server: RedisServer, invite: Invite) -> None:
    fill(server)
    party = invite(server.url, ttl=60)
    takes_all(party)
    server.command("CONFIG", "RESETSTAT")
    lists_all(party)
    once = scans(server)
    assert once < 1.5 * FOREIGN / 10, "one scan for three pages"
    lists_all(party, "job 0")
    assert scans(server) > once


@pytest.mark.parametrize("steps", [1, 30])
def test_the_keys_of_the_last_listing_alone_are_kept(
    server: RedisServer, invite: Invite, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """The fault: those of the last 64 listings were, which was a lot of memory for a monitor."""
    monkeypatch.setattr(inspect, "SCAN_STEP", b"10")
    monkeypatch.setattr(inspect, "SCAN_STEPS", steps)
    party = invite(server.url, ttl=60)
    takes_all(party)
    for _ in range(5):
        lists_all(party)
    gc.collect()
    assert sum(isinstance(each, inspect.Scan) for each in gc.get_objects()) == 1


@pytest.mark.usefixtures("small_steps")
def test_over_a_quorum_and_its_dead_minority(three: RedisMasters, invite: Invite) -> None:
    fill(*three.servers)
    party = invite(f"{three.url}?restart_guard=off&node_timeout=2", ttl=60)
    takes_all(party)
    lists_all(party)
    three.servers[0].kill()
    lists_all(party, "job 1")


@pytest.mark.usefixtures("small_steps")
@pytest.mark.slow
def test_in_a_cluster(cluster: RedisCluster, invite: Invite) -> None:
    party = invite(cluster.url, ttl=60)
    for number in range(200):
        party(party.takes(f"past {number}").release)
    takes_all(party)
    for node in cluster.nodes:
        node.command("CONFIG", "RESETSTAT")
    lists_all(party, "job")
    # The fault: from the second page on, each master was asked for the locks of one of them.
    assert not any("errorstat_MOVED" in node.info("errorstats") for node in cluster.nodes)


@pytest.mark.usefixtures("small_steps")
def test_listings_of_several_threads_do_not_disturb_each_other(bare: Bare) -> None:
    for name in NAMES:
        bare.ask(Acquire(name, "me", 60.0))
    first, second = List("", "", 10), List("", "", 10)
    seen: list[str] = []
    while True:
        for number, request in enumerate((first, second)):
            [answer] = bare.ask(request)
            assert isinstance(answer, Listing)
            if answer.cursor:
                following = List("", request.after, 10, answer.cursor)
            elif answer.leases:
                following = List("", answer.leases[-1].key, 10)
                seen += [lease.key for lease in answer.leases]
            else:
                assert sorted(seen) == sorted(NAMES + NAMES[: len(seen) - len(NAMES)])
                return
            first, second = (following, second) if number == 0 else (first, following)


@pytest.mark.parametrize("prefix", ["holdfast:", ""])
def test_foreign_keys_that_look_like_ours_are_left_out(
    server: RedisServer, invite: Invite, prefix: str
) -> None:
    party = invite(server.url, prefix=prefix, ttl=60)
    with closing(redis.Redis(port=server.port)) as client:
        head = prefix.encode()
        client.set(b"{%b\xff\xfe}:fence" % head, 1)  # no text
        client.set(b"%b\xff\xfe" % head, "x")
        client.hset(f"{{{prefix}hash}}:fence", "field", "value")  # no counter
        client.set(f"{prefix}hash", "mine")
        client.set(f"{{{prefix}number}}:fence", "not a number")
        client.rpush(f"{prefix}number", "no lock")
        client.set(f"{{{prefix}queue}}:fence", 7)
        client.set(f"{prefix}queue", "mine")
        client.set(f"{{{prefix}queue}}:queue", "no queue")
        client.set(f"{{{prefix}huge}}:fence", "9" * 5000)  # more digits than Python converts
        client.set(f"{prefix}huge", "mine")
    lease = party.takes("job")
    found = {info.name: (info.holder, info.fence) for info in party(party.client.leases)}
    assert found.pop("job") == (lease.holder, lease.fence)
    assert found == {"hash": ("mine", 0), "queue": ("mine", 7), "huge": ("mine", 0)}


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    with RedisCluster() as cluster:
        yield cluster
