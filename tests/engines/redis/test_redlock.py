"""Redlock on real nodes that are killed, frozen, and restarted without memory."""

import logging

import pytest

from holdfast import Client, EngineUnavailable, LockLost
from holdfast.drivers.common import log
from holdfast.events import Event, NodeConnected, NodeFailed, NodeRecovered, ReleaseFailed
from holdfast.lab.servers.redis import RedisServer
from tests.engines.redis.conftest import Invite
from tests.engines.redis.party import holders, warm_up
from tests.equipment.servers.masters import RedisMasters
from tests.patience import wait_for

OFF = "?restart_guard=off"
PATIENT = "&node_timeout=2"
"""So that a busy machine is not taken for a node that fails."""
LONG = 55.0
"""A ttl that a test does not outlast, so that what is gone was given back."""


def executed(server: RedisServer, name: str) -> bool:
    """Whether a node has granted this name, ever."""
    return server.command("GET", f"{{holdfast:{name}}}:fence") is not None


@pytest.mark.parametrize("count", [3, 5])
def test_a_dead_minority_is_not_missed(
    request: pytest.FixtureRequest, invite: Invite, count: int
) -> None:
    masters: RedisMasters = request.getfixturevalue("three" if count == 3 else "five")
    party = invite(masters.url + OFF + PATIENT, ttl=LONG)
    warm_up(party, masters)
    before = party.takes("before")
    wait_for(lambda: all(holders(masters.servers, "before")))
    for server in masters.servers[: count // 2]:
        server.kill()
    during = party.takes("during")
    assert during.fence
    for lease in (before, during):
        party(lease.extend)
        party(lease.release)
    assert not any(holders(masters.servers[count // 2 :], "before"))
    assert not any(holders(masters.servers[count // 2 :], "during"))


@pytest.mark.parametrize("fate", ["kill", "freeze"])
def test_without_a_majority_every_node_is_named(
    three: RedisMasters, invite: Invite, fate: str
) -> None:
    party = invite(three.url + OFF, ttl=LONG)
    warm_up(party, three)
    lease = party.takes("before")
    for server in three.servers[1:]:
        getattr(server, fate)()
    told = party.refused()
    assert set(told) == {server.address for server in three.servers}
    assert told[three.servers[0].address] in ("granted", "did not answer in time")  # it is busy
    assert all(told[server.address] not in ("", "granted") for server in three.servers[1:])
    with pytest.raises(EngineUnavailable, match="still yours"):
        party(lease.extend)
    assert lease.held
    assert holders(three.servers[:1]) == [None]


class TestFrozenNodes:
    @pytest.mark.parametrize("releasing", ["at once", "elsewhere", "later"])
    def test_no_ghost_of_a_lease_remains(
        self, three: RedisMasters, invite: Invite, releasing: str
    ) -> None:
        party = invite(three.url + OFF, ttl=LONG)
        warm_up(party, three)
        other = party.takes("other")
        three.servers[0].freeze()
        lease = party.takes("ghost")
        if releasing == "later":  # when it is known to be silent
            for _ in range(3):
                party(other.extend)
        party.begin(lease.release).result(10) if releasing == "elsewhere" else party(lease.release)
        three.servers[0].thaw()
        wait_for(lambda: executed(three.servers[0], "ghost"))
        wait_for(lambda: holders(three.servers, "ghost") == [None] * 3)

    def test_no_ghost_of_a_failed_attempt_remains(
        self, three: RedisMasters, invite: Invite
    ) -> None:
        party = invite(three.url + OFF, ttl=LONG)
        warm_up(party, three)
        for server in three.servers[:2]:
            server.freeze()
        assert set(party.refused("ghost")) == {server.address for server in three.servers}
        for server in three.servers[:2]:
            server.thaw()
        wait_for(lambda: all(executed(server, "ghost") for server in three.servers))
        wait_for(lambda: holders(three.servers, "ghost") == [None] * 3)

    def test_no_ghost_of_a_lost_vote_remains(self, three: RedisMasters, invite: Invite) -> None:
        """Somebody else holds two nodes, and the third, where it is free, is frozen."""
        for server in three.servers[1:]:
            server.command("SET", "holdfast:ghost", "them", "PX", 60_000)
        party = invite(three.url + OFF, ttl=LONG)
        warm_up(party, three)
        three.servers[0].freeze()
        assert party(party.client.lock("ghost").acquire, timeout=0.2) is None
        three.servers[0].thaw()
        wait_for(lambda: executed(three.servers[0], "ghost"))
        wait_for(lambda: holders(three.servers, "ghost") == [None, "them", "them"])

    def test_many_at_once_leave_none(self, three: RedisMasters, invite: Invite) -> None:
        party = invite(three.url + OFF, ttl=LONG)
        warm_up(party, three)

        def work(number: int) -> None:
            if party.mode == "sync":
                lock = party.client.lock(f"crowd{number}")
                for _ in range(10):
                    lock.acquire().release()

        async def awork(number: int) -> None:
            lock = party.client.lock(f"crowd{number}")
            for _ in range(10):
                await (await lock.acquire()).release()

        for server in three.servers:
            server.freeze()
            crowd = range(8)
            body = work if party.mode == "sync" else awork
            done = [party.begin(body, number) for number in crowd]
            for each in done:
                each.result(20)
            server.thaw()
        for number in range(8):
            wait_for(lambda n=number: holders(three.servers, f"crowd{n}") == [None] * 3)  # type: ignore[misc]

    def test_a_thawed_node_votes_again(self, three: RedisMasters, invite: Invite) -> None:
        party = invite(three.url + OFF, ttl=LONG)
        warm_up(party, three)
        three.servers[0].freeze()
        party(party.takes().release)
        three.servers[0].thaw()
        three.servers[1].kill()
        party(party.takes(timeout=10.0).release)


class TestForgetfulNodes:
    def test_a_lease_survives_a_minority_that_forgot_and_is_told_to_it_again(
        self, three: RedisMasters, invite: Invite
    ) -> None:
        party = invite(three.url + OFF)
        lease = party.takes(ttl=1.5)
        wait_for(lambda: all(holders(three.servers)))
        three.servers[1].restart(keep_data=False)
        wait_for(lambda: holders(three.servers) == [lease.holder] * 3)
        assert three.servers[1].command("GET", "{holdfast:job}:fence") == str(lease.fence)
        assert lease.held
        # It is a vote again: now another one may go.
        three.servers[2].kill()
        party.insists(lease.extend, 1.5)
        party.drops(lease)
        wait_for(lambda: holders(three.servers[:2]) == [None, None])

    def test_a_lease_does_not_survive_a_majority_that_forgot(
        self, three: RedisMasters, invite: Invite
    ) -> None:
        party = invite(three.url + OFF)
        lease = party.takes(ttl=3.0)
        for server in three.servers[:2]:
            server.restart(keep_data=False)
        wait_for(lambda: lease.lost)
        with pytest.raises(LockLost):
            party(lease.release)
        wait_for(lambda: holders(three.servers) == [None] * 3)

    def test_what_an_operator_broke_does_not_come_back(
        self, three: RedisMasters, invite: Invite
    ) -> None:
        party, operator = invite(three.url + OFF), invite(three.url + OFF)
        lease = party.takes(ttl=1.5)
        assert operator(operator.client.break_lock, "job")
        wait_for(lambda: lease.lost)
        assert holders(three.servers) == [None] * 3
        with pytest.raises(LockLost):
            party(lease.release)


class TestEvents:
    def events(self, caplog: pytest.LogCaptureFixture) -> list[object]:
        log.wait(30)
        logged = [record.args for record in caplog.records if record.name == "holdfast"]
        assert not any(isinstance(args[0], ReleaseFailed) for args in logged if args)  # type: ignore[index]
        return [args[0] for args in logged if isinstance(args, tuple)]

    def test_nodes_that_are_well_are_not_told_of(
        self, three: RedisMasters, invite: Invite, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.INFO, "holdfast"):
            warm_up(invite(three.url + OFF + PATIENT, ttl=LONG), three)
        assert self.events(caplog) == []

    def test_but_hooks_see_that_they_are_there(self, three: RedisMasters) -> None:
        seen: list[Event] = []
        with Client(three.url + OFF + PATIENT, hooks=[seen.append]) as client:
            with client.lock("job", ttl=LONG):
                pass
            names = {server.address for server in three.servers}
            wait_for(lambda: {e.node for e in seen if isinstance(e, NodeConnected)} == names)
        assert [each.margin for each in seen if isinstance(each, NodeConnected)] == [1, 1, 1]

    def test_a_node_that_is_dead_from_the_beginning_is_told_of(
        self, three: RedisMasters, invite: Invite, caplog: pytest.LogCaptureFixture
    ) -> None:
        three.servers[0].kill()
        with caplog.at_level(logging.INFO, "holdfast"):
            party = invite(three.url + OFF + PATIENT, ttl=LONG)
            wait_for(lambda: party(party.takes().release) or self.events(caplog))
            [failed] = self.events(caplog)
        assert isinstance(failed, NodeFailed)
        assert failed.node == three.servers[0].address

    @pytest.mark.parametrize("fate", ["kill", "freeze"])
    def test_a_node_that_fails_and_comes_back_is_told_of_once_each(
        self,
        three: RedisMasters,
        invite: Invite,
        caplog: pytest.LogCaptureFixture,
        fate: str,
    ) -> None:
        party = invite(three.url + OFF + PATIENT, ttl=LONG)
        warm_up(party, three)
        victim = three.servers[1]
        with caplog.at_level(logging.INFO, "holdfast"):
            getattr(victim, fate)()
            lease = party.takes()
            for _ in range(5):
                party(lease.extend)
            wait_for(lambda: self.events(caplog))
            if fate == "kill":
                victim.start()
            else:
                victim.thaw()
            wait_for(lambda: party(lease.extend) or len(self.events(caplog)) > 1)
            for _ in range(5):
                party(lease.extend)
            party(lease.release)
        failed, back = self.events(caplog)
        assert isinstance(failed, NodeFailed)
        assert (failed.node, failed.margin) == (victim.address, 0)
        assert back == NodeRecovered(victim.address, 1)


def test_a_ttl_beyond_max_ttl_is_refused_before_anything_is_sent(
    three: RedisMasters, invite: Invite
) -> None:
    for server in three.servers:
        server.command("CONFIG", "RESETSTAT")
    party = invite(f"{three.url}?max_ttl=1", ttl=1)
    with pytest.raises(ValueError, match="ttl"):
        party.client.lock("job", ttl=1.1)
    with pytest.raises(ValueError, match="ttl"):
        invite(f"{three.url}?max_ttl=1", ttl=2)
    for server in three.servers:
        assert server.info("stats")["total_connections_received"] == "1"  # our own look
