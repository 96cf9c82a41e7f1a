"""Fencing tokens on real servers: how they are kept, and that they grow."""

from contextlib import closing

import pytest

from holdfast.core.messages import (
    DONE,
    NOT_YOURS,
    Acquire,
    Extend,
    Granted,
    Inspect,
    Listing,
    Raise,
    Release,
    Repair,
)
from holdfast.lab.servers.redis import RedisServer
from tests.core.stage import increasing
from tests.engines.redis.conftest import Invite
from tests.engines.redis.party import Bare
from tests.equipment.servers.masters import RedisMasters

BIG = 1_763_186_839_123_457
KEEP_MS = 3_600_000


def ttl_of(server: RedisServer, key: str) -> int:
    return int(str(server.command("PTTL", key)))


def micros(server: RedisServer) -> int:
    match server.command("TIME"):
        case [seconds, fraction]:
            return int(str(seconds)) * 1_000_000 + int(str(fraction))
    raise AssertionError("no time")


class TestCounters:
    @pytest.mark.parametrize("quorum", [True, False])
    def test_a_fence_is_written_as_a_whole_number(self, server: RedisServer, quorum: bool) -> None:
        bare = Bare(server, quorum=quorum)
        [grant] = bare.ask(Acquire("job", "me", 10.0, proposed=micros(server)))
        assert isinstance(grant, Granted)
        assert server.command("GET", "{job}:fence") == str(grant.fence)
        assert grant.fence > 10**15
        bare.ask(Release("job", "me"))
        [next_grant] = bare.ask(Acquire("job", "me too", 10.0, proposed=1))
        assert isinstance(next_grant, Granted)
        assert next_grant.fence > grant.fence
        [listing] = bare.ask(Inspect("job"))
        assert isinstance(listing, Listing)
        assert listing.leases[0].fence == next_grant.fence
        bare.close()

    def test_every_digit_counts(self, server: RedisServer, bare: Bare) -> None:
        server.command("SET", "{job}:fence", BIG * 5)
        assert list(bare.ask(Acquire("job", "me", 10.0))) == [Granted(BIG * 5 + 1)]
        assert list(bare.ask(Acquire("job", "me", 10.0))) == [Granted(BIG * 5 + 1)]
        for fence in (BIG * 5 + 3, BIG * 5 + 4):
            assert list(bare.ask(Raise("job", "me", fence))) == [Granted(fence)]
            assert server.command("GET", "{job}:fence") == str(fence)
        assert list(bare.ask(Raise("job", "me", BIG * 5 + 3))) == [NOT_YOURS]
        server.command("DEL", "job")
        assert list(bare.ask(Repair("job", "me", 10.0, BIG * 5 + 6))) == [DONE]
        assert server.command("GET", "{job}:fence") == str(BIG * 5 + 6)

    def test_a_proposal_counts_within_a_minute_of_the_servers_clock(
        self, server: RedisServer, bare: Bare
    ) -> None:
        minute = 60_000_000
        for ahead in (-minute // 2, 0, minute // 2):
            server.command("FLUSHALL")
            proposed = micros(server) + ahead
            assert list(bare.ask(Acquire("job", "me", 10.0, proposed=proposed))) == [
                Granted(proposed)
            ]
        for ahead, clamped in ((-10 * minute, -minute), (10 * minute, minute)):
            server.command("FLUSHALL")
            before = micros(server)
            [grant] = bare.ask(Acquire("job", "me", 10.0, proposed=before + ahead))
            assert isinstance(grant, Granted)
            assert before <= grant.fence - clamped <= micros(server)

    def test_a_fence_is_the_proposed_one_or_the_next(self, server: RedisServer, bare: Bare) -> None:
        fence = micros(server)
        for last, proposed, granted in (
            *((fence, fence, fence + 1), (fence, fence - 1, fence + 1)),
            *((fence, fence + 1, fence + 1), (fence - 2, fence, fence)),
        ):
            server.command("SET", "{job}:fence", last)
            assert list(bare.ask(Acquire("job", "me", 10.0, proposed=proposed))) == [
                Granted(granted)
            ]
            assert server.command("GET", "{job}:fence") == str(granted)
            assert 0 <= KEEP_MS + 10_000 - ttl_of(server, "{job}:fence") < 1000
            bare.ask(Release("job", "me"))

    @pytest.mark.parametrize("quorum", [True, False])
    def test_a_counter_that_lags_behind_goes_on_at_the_servers_clock(
        self, server: RedisServer, quorum: bool
    ) -> None:
        """As that of a replica does which has missed the last grants, and is promoted."""
        with closing(Bare(server, quorum=quorum)) as bare:
            for lagging in (1, micros(server) - 60_000_000):
                server.command("FLUSHALL")
                server.command("SET", "{job}:fence", lagging)
                before = micros(server)
                [grant] = bare.ask(Acquire("job", "me", 10.0))
                assert isinstance(grant, Granted)
                assert before <= grant.fence <= micros(server)

    def test_the_counter_stays_for_an_hour_longer_than_the_lock_could(
        self, server: RedisServer, bare: Bare
    ) -> None:
        bare.ask(Acquire("job", "me", 10.0))
        assert 0 <= KEEP_MS + 10_000 - ttl_of(server, "{job}:fence") < 1000
        server.command("PEXPIRE", "{job}:fence", 5000)
        bare.ask(Acquire("job", "me", 10.0))
        assert 0 <= KEEP_MS + 10_000 - ttl_of(server, "{job}:fence") < 1000
        server.command("PEXPIRE", "{job}:fence", 5000)
        bare.ask(Extend("job", "me", 20.0))
        assert 0 <= KEEP_MS + 20_000 - ttl_of(server, "{job}:fence") < 1000
        bare.ask(Release("job", "me"))
        assert 0 <= KEEP_MS + 20_000 - ttl_of(server, "{job}:fence") < 1000
        assert server.command("GET", "job") is None

    def test_raise_and_repair_leave_no_counter_that_stays_for_ever(
        self, server: RedisServer, bare: Bare
    ) -> None:
        bare.ask(Acquire("job", "me", 10.0))
        server.command("DEL", "{job}:fence")
        bare.ask(Raise("job", "me", BIG))
        assert 0 < ttl_of(server, "{job}:fence") <= KEEP_MS
        server.command("FLUSHALL")
        bare.ask(Repair("job", "me", 10.0, BIG))
        assert 0 < ttl_of(server, "{job}:fence") <= KEEP_MS + 10_000
        assert 0 < ttl_of(server, "job") <= 10_000

    def test_a_shorter_extension_does_not_let_the_counter_end_before_its_lock(
        self, server: RedisServer
    ) -> None:
        bare = Bare(server, keep=1.0)
        bare.ask(Acquire("job", "me", 100.0))
        assert list(bare.ask(Extend("job", "me", 2.0))) == [DONE]
        assert ttl_of(server, "job") > 90_000
        assert ttl_of(server, "{job}:fence") > ttl_of(server, "job")
        bare.close()

    def test_nothing_of_a_lock_has_no_end(
        self, server: RedisServer, bare: Bare, invite: Invite
    ) -> None:
        party = invite(server.url, ttl=5)
        lease = party.takes()
        bare.ask(Acquire("holdfast:job", "me", 10.0, queue=True))
        keys = server.command("KEYS", "*")
        assert isinstance(keys, list)
        assert sorted(map(str, keys)) == [
            "holdfast:job",
            "{holdfast:job}:fence",
            "{holdfast:job}:queue",
        ]
        assert all(ttl_of(server, str(key)) > 0 for key in keys)
        party(lease.release)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("job", "job"),
        ("a{b}c", "a{b}c"),
        ("100%7B", "100%7B"),
        ("{job}:fence", "{job}:fence\0"),  # or it would be the counter of `job`
        ("späte Ärgernisse\n*?[x]", "späte Ärgernisse\n*?[x]"),
    ],
)
def test_names_are_keys_and_have_counters_beside_them(
    server: RedisServer, invite: Invite, name: str, key: str
) -> None:
    party = invite(server.url, ttl=5, prefix="")
    lease = party.takes(name)
    assert server.command("GET", key) == lease.holder
    assert server.command("GET", f"{{{key}}}:fence") == str(lease.fence)
    [info] = party(lambda: party.client.leases())
    assert info.name == name
    assert [i.name for i in party(lambda: party.client.leases(name))] == [name]
    party(lease.release)


class TestOverAQuorum:
    def test_the_fence_is_on_a_majority(self, three: RedisMasters, invite: Invite) -> None:
        party = invite(f"{three.url}?restart_guard=off", ttl=5)
        lease = party.takes()
        counters = [s.command("GET", "{holdfast:job}:fence") for s in three.servers]
        assert counters.count(str(lease.fence)) >= 2
        party(lease.release)

    def test_nodes_that_lag_behind_are_raised(self, three: RedisMasters, invite: Invite) -> None:
        ahead = micros(three.servers[0]) + 10**9  # as if clocks had been set back since
        three.servers[0].command("SET", "{holdfast:job}:fence", ahead)
        three.servers[1].command("SET", "{holdfast:job}:fence", ahead + 5)
        party = invite(f"{three.url}?restart_guard=off", ttl=5)
        three.servers[2].kill()
        lease = party.takes()
        assert lease.fence == ahead + 6
        for server in three.servers[:2]:
            assert server.command("GET", "{holdfast:job}:fence") == str(lease.fence)
        party(lease.release)

    def test_they_grow_whichever_majority_answers(
        self, three: RedisMasters, invite: Invite
    ) -> None:
        party = invite(f"{three.url}?restart_guard=off", ttl=5)
        fences = []
        for absent in (0, 1, 2, 0, 2):
            three.servers[absent].freeze()
            lease = party.takes()
            fences.append(lease.fence)
            party(lease.release)
            three.servers[absent].thaw()
        assert increasing(fences)
