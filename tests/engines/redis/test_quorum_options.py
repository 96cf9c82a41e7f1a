"""What a quorum refuses, and what can be set for it."""

import pytest

import holdfast
from holdfast.lab.servers.redis import RedisServer
from tests.engines.redis.conftest import Invite
from tests.equipment.servers.masters import RedisMasters
from tests.patience import wait_for

PLAIN = "?restart_guard=off"


@pytest.mark.parametrize("value", ["60", "119.9", "0"])
def test_counters_must_outlive_what_clocks_may_differ_by(value: str) -> None:
    with pytest.raises(ValueError, match=f"fence_keep: must be from 120 to .*'{value}'"):
        holdfast.Client(f"redlock://a,b,c?fence_keep={value}")
    with holdfast.Client("redis://a?fence_keep=60"):
        """One server has one clock."""


@pytest.mark.parametrize(("value", "ttl", "expected"), [("0.2", 30, 0.2), ("0.2", 0.3, 0.1)])
def test_the_node_timeout_can_be_set(value: str, ttl: float, expected: float) -> None:
    url = "redlock://a,b,c"
    for client in (
        holdfast.Client(f"{url}?node_timeout={value}"),
        holdfast.Client(url, node_timeout=float(value)),
    ):
        assert client.lock("job", ttl=ttl)._spec.request_timeout == pytest.approx(expected)


def test_a_login_for_each_host_is_refused() -> None:
    """All but the last host would be taken for a password, and one node for a quorum."""
    with pytest.raises(ValueError, match="the password once, for all") as refused:
        holdfast.Client("redlock://ann:secret@a,ann:secret@b,ann:secret@c")
    assert "secret" not in str(refused.value)
    with holdfast.Client("redlock://ann:se%40cr%2Cet@a,b,c"):
        """Once."""


@pytest.mark.parametrize("guard", ["on", "off"])
@pytest.mark.parametrize("more", ["", ",127.0.0.1:{}"])
def test_one_server_has_one_vote(
    three: RedisMasters, server: RedisServer, invite: Invite, guard: str, more: str
) -> None:
    one, two = f"localhost:{server.port}", f"127.0.0.1:{server.port}"
    hosts = f"{one},{two}" + more.format(three.servers[0].port)
    party = invite(f"redlock://{hosts}?restart_guard={guard}")
    told: dict[str, str] = {}

    def is_refused() -> bool:
        """Not by a first try that reaches two servers before the third address is connected."""
        try:
            lease = party.tries()
        except holdfast.EngineUnavailable as error:
            told.update(error.nodes)
            return "the same server" in str(told)
        if lease is not None:
            party(lease.release)
        return False

    wait_for(is_refused)
    assert told[one].startswith(f"is the same server as {two} ")
    assert told[two].startswith(f"is the same server as {one} ")
    assert server.command("GET", "holdfast:job") is None
    with pytest.raises(holdfast.EngineUnavailable, match="the same server"):
        party(party.client.lock("job").acquire, timeout=600)  # waiting would not help


def test_the_longest_ttl_is_promised_and_bounds_the_default() -> None:
    with holdfast.Client("redlock://a,b,c?max_ttl=4") as client:
        assert client.guarantees.max_ttl == 4
        client.lock("job")
        with pytest.raises(ValueError, match="ttl"):
            client.lock("job", ttl=5)
