"""What is seen of the servers of Redis, and what the doctor says of those that are set up badly."""

import re
from collections.abc import Iterator
from math import inf

import pytest

from holdfast import Client, Finding, NodeInfo
from holdfast.lab.servers.redis import RedisServer
from tests.equipment.servers.masters import RedisMasters


def findings(url: str, *severities: str) -> list[str]:
    """What was found, and how bad it is."""
    with Client(url) as client:
        found = client.diagnose()
    return [str(each) for each in found if not severities or each.severity in severities]


def about(word: str, found: list[str]) -> list[str]:
    return [line.split(":")[0] for line in found if word in line]


def nodes(url: str) -> list[NodeInfo]:
    with Client(url) as client:
        return client.nodes()


def unguarded(masters: RedisMasters) -> str:
    return f"{masters.url}?restart_guard=off"


def restart(masters: RedisMasters) -> None:
    for server in masters.servers:
        server.kill()
        server.start()


@pytest.fixture
def config(server: RedisServer) -> Iterator[RedisServer]:
    """Settings are as they were afterwards."""
    names = ("maxmemory", "maxmemory-policy", "appendonly", "appendfsync", "save")
    before = [server.command("CONFIG", "GET", name) for name in names]
    yield server
    for setting in before:
        assert isinstance(setting, list)
        server.command("CONFIG", "SET", *map(str, setting))


class TestOneServer:
    def test_that_evicts_keys(self, config: RedisServer) -> None:
        config.command("CONFIG", "SET", "maxmemory", "100mb")
        assert about("maxmemory_policy", findings(config.url)) == []
        config.command("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
        assert about("maxmemory_policy", findings(config.url)) == ["critical"]

    def test_whose_memory_is_full(self, config: RedisServer) -> None:
        used = re.search(r"used_memory:(\d+)", str(config.command("INFO", "memory")))
        assert used is not None
        config.command("CONFIG", "SET", "maxmemory", str(int(int(used[1]) * 1.05)))
        assert about("of its maxmemory are in use", findings(config.url)) == ["warning"]

    def test_that_forgets(self, config: RedisServer) -> None:
        config.command("CONFIG", "SET", "save", "")
        config.command("CONFIG", "SET", "appendonly", "no")
        assert about("loses all locks", findings(config.url)) == ["warning"]
        config.command("CONFIG", "SET", "appendonly", "yes")
        assert about("the last second of grants", findings(config.url)) == ["note"]
        config.command("CONFIG", "SET", "appendfsync", "always")
        assert about("loses", findings(config.url)) == []

    def test_that_repeats_the_login_in_its_error(self) -> None:
        """As one does that does not know the command."""
        with RedisServer(options=("--rename-command", "AUTH", "")) as server:
            url = f"redis://ann:swordfish@{server.address}"
            [error] = [node.error for node in nodes(url)]
            assert "unknown command 'AUTH'" in error
            assert not about("swordfish", [error, *findings(url)])

    def test_a_replica(self, server: RedisServer) -> None:
        with RedisServer() as replica:
            replica.command("REPLICAOF", "127.0.0.1", str(server.port))
            assert about("it is a replica of", findings(replica.url)) == ["critical"]
            assert about("grants do not wait for them", findings(server.url)) in ([], ["warning"])

    @pytest.mark.parametrize(
        ("right", "found_about"),
        [("subscribe", "it cannot wake waiters"), ("publish", "this user may not publish")],
    )
    def test_that_cannot_wake_waiters(
        self, server: RedisServer, right: str, found_about: str
    ) -> None:
        server.command(
            "ACL", "SETUSER", "mute", "reset", "on", ">x", "~*", "&*", "+@all", f"-{right}"
        )
        try:
            found = findings(server.url.replace("://", "://mute:x@"))
        finally:
            server.command("ACL", "DELUSER", "mute")
        assert about(found_about, found) == ["warning"]

    def test_options_that_cannot_be_met(self, server: RedisServer) -> None:
        found = findings(f"{server.url}?replicas=2")
        assert about("replicas=2 is asked for", found) == ["critical"]


class TestAQuorum:
    def test_that_is_sound(self, three: RedisMasters) -> None:
        found = findings(f"{three.url}?restart_guard=off", "critical")
        assert found == []
        assert about("3 nodes are on the host", findings(f"{three.url}?restart_guard=off")) == [
            "warning"
        ]

    def test_a_user_who_may_not_ask_for_info_has_no_votes(self, three: RedisMasters) -> None:
        """As a client that meets these nodes, and does not know whether they have restarted."""
        for server in three.servers:
            server.command(
                "ACL", "SETUSER", "mute", "reset", "on", ">x", "~*", "&*", "+@all", "-info"
            )
        try:
            with Client(three.url.replace("://", "://mute:x@")) as client:
                assert [node.margin for node in client.nodes()] == [-2, -2, -2]
        finally:
            for server in three.servers:
                server.command("ACL", "DELUSER", "mute")

    def test_with_one_node_down(self, three: RedisMasters) -> None:
        three.servers[0].kill()
        found = findings(f"{three.url}?restart_guard=off")
        assert about("2 of 3 servers have a vote now: none to spare", found) == ["warning"]
        assert about("it does not answer", found) == ["warning"]

    def test_without_a_majority(self, three: RedisMasters) -> None:
        for server in three.servers[:2]:
            server.kill()
        found = findings(f"{three.url}?restart_guard=off")
        assert about("1 of 3 servers have a vote now: 1 too few", found) == ["critical"]
        assert about("to hand a lock over failed", found) == ["critical"]

    def test_two_names_for_one_server(self, three: RedisMasters) -> None:
        one, two, _ = three.servers
        found = findings(
            f"redlock://127.0.0.1:{one.port},127.0.0.1:{two.port},localhost:{one.port}?restart_guard=off"
        )
        assert about("are one and the same server", found) == ["critical"]

    def test_a_node_that_was_just_restarted(self, three: RedisMasters) -> None:
        restart(three)
        guarded = three.url.partition("?")[0]
        assert len(about("it has restarted", findings(guarded))) == 3


def test_a_finding_is_one_line() -> None:
    assert str(Finding("note", "here", "what", "", "")) == "note: here: what"


class TestNodes:
    """`client.nodes()`."""

    def test_one_server(self, server: RedisServer) -> None:
        [node] = nodes(server.url)
        assert (node.name, node.error, node.margin, node.quarantine) == (
            server.address,
            "",
            None,
            0,
        )
        assert node.round_trip is not None
        assert node.uncertainty == node.round_trip / 2
        assert node.offset is not None
        assert abs(node.offset) <= node.uncertainty + 0.001, "it has this host's clock"

    def test_a_clock_that_is_ahead(self) -> None:
        with RedisServer(own_clock=True) as server:
            server.clock.jump(100)
            [node] = nodes(server.url)
        assert node.offset is not None
        assert node.uncertainty is not None
        assert abs(node.offset - 100) <= node.uncertainty + 0.01

    def test_a_user_that_may_not_read_the_clock(self, server: RedisServer) -> None:
        server.command("ACL", "SETUSER", "blind", "on", ">secret", "~*", "&*", "+@all", "-time")
        try:
            [node] = nodes(server.url.replace("://", "://blind:secret@"))
        finally:
            server.command("ACL", "DELUSER", "blind")
        assert "time" in node.error
        assert "secret" not in node.error

    def test_how_many_nodes_may_fail(self, three: RedisMasters) -> None:
        assert [(node.answers, node.margin) for node in nodes(unguarded(three))] == [(True, 1)] * 3
        three.servers[1].kill()
        one, two, _ = nodes(unguarded(three))
        assert (one.margin, two.margin) == (0, 0)
        assert one.answers
        assert "refused" in two.error
        assert (two.round_trip, two.offset, two.uncertainty) == (None, None, None)
        three.servers[2].freeze()
        assert [node.margin for node in nodes(unguarded(three))] == [-1] * 3
        three.servers[0].kill()
        assert [node.margin for node in nodes(unguarded(three))] == [-2] * 3

    def test_a_node_that_hangs(self, three: RedisMasters) -> None:
        three.servers[0].freeze()
        one, two, three_ = nodes(unguarded(three))
        assert one.error
        assert two.answers
        assert three_.answers

    def test_nodes_that_were_just_restarted(self, three: RedisMasters) -> None:
        """They answer, and have no vote."""
        restart(three)
        found = nodes(three.url)
        assert all(node.answers and 0 < node.quarantine < 62 for node in found)
        assert [node.margin for node in found] == [-2] * 3
        for server in three.servers:
            server.command("CONFIG", "SET", "appendonly", "yes")
            server.command("CONFIG", "SET", "appendfsync", "always")
        found = nodes(three.url)
        for server in three.servers:
            server.command("CONFIG", "SET", "appendonly", "no")
            server.command("CONFIG", "SET", "appendfsync", "everysec")
        assert [(node.quarantine, node.margin) for node in found] == [(0, 1)] * 3

    def test_two_names_for_one_server(self, three: RedisMasters) -> None:
        one, two, _ = three.servers
        places = f"127.0.0.1:{one.port},127.0.0.1:{two.port},localhost:{one.port}"
        found = nodes(f"redlock://{places}?restart_guard=off")
        assert [(node.quarantine, node.margin) for node in found] == [(inf, -2)] * 3
