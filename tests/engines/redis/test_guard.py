"""The restart guard on real nodes. `max_ttl` is under a second here, so a quarantine is short."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import EngineUnavailable
from tests.engines.redis.conftest import Invite
from tests.engines.redis.party import Party, holders
from tests.equipment.servers.masters import RedisMasters
from tests.equipment.servers.redis import RedisServer
from tests.patience import wait_for

GUARDED = "?max_ttl=0.9&ttl=0.9"


def uptime(server: RedisServer) -> int:
    return int(server.info("server")["uptime_in_seconds"])


def age(servers: list[RedisServer], seconds: int = 2) -> None:
    """Wait until these nodes are old enough to be trusted by whoever meets them."""
    wait_for(lambda: all(uptime(server) >= seconds for server in servers))


@pytest.fixture
def old(three: RedisMasters) -> RedisMasters:
    age(three.servers)
    return three


def has_no_vote(told: str) -> bool:
    return "no vote until " in told and told.endswith("(see the option restart_guard)")


def test_old_nodes_are_trusted_at_once(old: RedisMasters, invite: Invite) -> None:
    party = invite(old.url + GUARDED)
    party.drops(take_everywhere(party, old))
    assert [server.command("GET", "{holdfast}:max_ttl") for server in old.servers] == ["900"] * 3


def test_fresh_nodes_have_no_vote_until_the_instant_that_is_told(
    old: RedisMasters, invite: Invite
) -> None:
    for server in old.servers[1:]:
        server.restart(keep_data=False)
    party = invite(old.url + GUARDED)
    told = party.refused()  # at the first try already
    assert any(map(has_no_vote, told.values()))
    fresh = [server.address for server in old.servers[1:]]
    wait_for(lambda: told.update(party.refused()) or all(has_no_vote(told[f]) for f in fresh))
    for server in old.servers[1:]:
        left = float(told[server.address].split(" UTC, in ")[1].split()[0])
        assert 0 < left <= 0.9 + 0.011 + 1 + 0.05
    assert holders(old.servers) == [None] * 3
    lease = party.takes(timeout=10.0)  # it goes on trying, and the quarantine ends
    party.drops(lease)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync"], indirect=True)
def test_nodes_whose_clocks_were_set_back_are_not_kept_out_for_longer(invite: Invite) -> None:
    """They say that they will be started in an hour."""
    with RedisMasters(count=3, own_clock=True) as masters:
        for server in masters.servers:
            server.clock.jump(-3600)
        wait_for(lambda: all(uptime(server) < -3000 for server in masters.servers))
        party = invite(masters.url + GUARDED)
        party.drops(party.takes(timeout=20))


def test_a_fresh_minority_is_not_missed(old: RedisMasters, invite: Invite) -> None:
    old.servers[0].restart(keep_data=False)
    party = invite(old.url + GUARDED)
    party.drops(party.takes(timeout=1.5))  # its quarantine would take longer


def test_with_the_guard_off_fresh_nodes_vote(three: RedisMasters, invite: Invite) -> None:
    for server in three.servers:
        server.restart(keep_data=False)
    party = invite(f"{three.url}?restart_guard=off", ttl=5)
    party.drops(party.takes())  # a quarantine would take longer
    assert three.servers[0].command("GET", "{holdfast}:max_ttl") is None


def take_everywhere(party: Party, masters: RedisMasters) -> Any:
    """Take the lock, on every node."""
    lease = party.takes()
    wait_for(lambda: holders(masters.servers) == [lease.holder] * 3)
    return lease


class TestRestartsUnderUs:
    @pytest.mark.parametrize("guard", ["on", "off"])
    def test_a_node_that_forgot_does_not_vote_twice(
        self, old: RedisMasters, invite: Invite, guard: str
    ) -> None:
        url = f"{old.url}?max_ttl=0.9&ttl=0.9&restart_guard={guard}"
        ann, bob = invite(url), invite(url)
        bob.drops(take_everywhere(bob, old))
        first, second, _ = old.servers
        first.command("SET", "holdfast:job", "somebody", "PX", 60_000)
        lease = ann.takes(renew=False)  # on the second and the third
        first.command("DEL", "holdfast:job")
        second.restart(keep_data=False)
        stolen = False
        while lease.held and not stolen:
            stolen = attempt(bob) and lease.held
        assert stolen is (guard == "off")

    @pytest.mark.parametrize("guard", ["on", "off"])
    def test_a_node_that_forgot_a_reader_lets_no_writer_in(
        self, old: RedisMasters, invite: Invite, guard: str
    ) -> None:
        url = f"{old.url}?max_ttl=0.9&ttl=0.9&restart_guard={guard}"
        ann, bob = invite(url), invite(url)
        bob.drops(take_everywhere(bob, old))
        first, second, _ = old.servers
        first.command("SET", "holdfast:job", "somebody", "PX", 60_000)
        lease = ann.reads(renew=False)  # on the second and the third
        assert holders(old.servers) == ["somebody", "shared 0", "shared 0"]
        first.command("DEL", "holdfast:job")
        second.restart(keep_data=False)
        stolen = False
        while lease.held and not stolen:
            stolen = attempt(bob) and lease.held
        assert stolen is (guard == "off")

    def test_a_lease_survives_and_is_repaired_but_not_voted_for(
        self, old: RedisMasters, invite: Invite
    ) -> None:
        party = invite(old.url + GUARDED)
        lease = take_everywhere(party, old)
        old.servers[1].restart(keep_data=False)
        wait_for(lambda: holders(old.servers) == [lease.holder] * 3)
        assert lease.held
        assert old.servers[1].command("GET", "{holdfast:job}:fence") == str(lease.fence)
        old.servers[2].kill()
        told = party.refused("another")
        assert has_no_vote(told[old.servers[1].address]), told
        party.drops(party.takes("another", timeout=10.0))  # the quarantine is over

    def test_releases_go_to_a_node_in_quarantine(self, old: RedisMasters, invite: Invite) -> None:
        party = invite(old.url + GUARDED)
        lease = take_everywhere(party, old)
        old.servers[1].restart(keep_data=False)
        wait_for(lambda: holders(old.servers) == [lease.holder] * 3)
        party.drops(lease)
        wait_for(lambda: holders(old.servers) == [None] * 3)


def attempt(party: Party) -> bool:
    """Ask once; whether it was granted."""
    try:
        return bool(party.tries())
    except EngineUnavailable:
        return False


@pytest.fixture(scope="module")
def durable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisMasters]:
    folder: Path = tmp_path_factory.mktemp("durable")
    with RedisMasters(folder, 3, append_only="always") as masters:
        yield masters


LONG = "?max_ttl=30&ttl=5"
"""With this, a quarantine would outlast the tests."""


class TestDurableNodes:
    @pytest.mark.slow
    def test_they_are_exempt(self, durable: RedisMasters, invite: Invite) -> None:
        party = invite(durable.url + LONG)
        party.drops(party.takes())  # though they are young
        for server in durable.servers:
            server.kill()
            server.start()
        party.drops(party.takes("another"))
        other = invite(durable.url + LONG)
        other.drops(other.takes("another"))

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("setting", "value"),
        [("appendfsync", "everysec"), ("no-appendfsync-on-rewrite", "yes"), ("appendonly", "no")],
    )
    def test_unless_they_might_forget_after_all(
        self, durable: RedisMasters, invite: Invite, setting: str, value: str
    ) -> None:
        for server in durable.servers:
            server.kill()
            server.start()  # with its usual settings
            server.command("CONFIG", "SET", setting, value)
        party = invite(durable.url + LONG)
        told = party.refused("young")
        # Whoever is slow to connect to is not waited for.
        assert sum(map(has_no_vote, told.values())) >= 2, told
        assert "granted" not in told.values()


class TestMaxTtl:
    def test_a_client_that_differs_is_refused(self, old: RedisMasters, invite: Invite) -> None:
        party = invite(old.url + GUARDED)
        party.drops(party.takes())
        other = invite(f"{old.url}?max_ttl=2", ttl=1)
        told = other.refused()
        assert set(told) == {server.address for server in old.servers}
        differs = ["max_ttl is 0.9 s there and 2 s here" in why for why in told.values()]
        assert sum(differs) > len(differs) // 2, told  # the others were not waited for
        party.drops(party.takes())  # the first one goes on

    def test_a_node_that_lost_it_is_told_again_and_one_that_differs_is_not_used(
        self, old: RedisMasters, invite: Invite
    ) -> None:
        party = invite(old.url + GUARDED)
        party.drops(party.takes())
        old.servers[0].command("SET", "{holdfast}:max_ttl", "5000")
        old.servers[1].command("DEL", "{holdfast}:max_ttl")
        other = invite(old.url + GUARDED)
        lease = other.takes()
        assert old.servers[0].command("GET", "holdfast:job") is None
        assert old.servers[1].command("GET", "{holdfast}:max_ttl") == "900"
        other.drops(lease)
