"""What is seen of the servers of Redis: `client.nodes()`."""

from math import inf

from holdfast import Client, NodeInfo
from holdfast.lab.servers.redis import RedisServer
from tests.equipment.servers.masters import RedisMasters


def nodes(url: str) -> list[NodeInfo]:
    with Client(url) as client:
        return client.nodes()


def unguarded(masters: RedisMasters) -> str:
    return f"{masters.url}?restart_guard=off"


def test_one_server(server: RedisServer) -> None:
    [node] = nodes(server.url)
    assert (node.name, node.error, node.margin, node.quarantine) == (server.address, "", None, 0)
    assert node.round_trip is not None
    assert node.uncertainty == node.round_trip / 2
    assert node.offset is not None
    assert abs(node.offset) <= node.uncertainty + 0.001, "it has this host's clock"


def test_a_clock_that_is_ahead() -> None:
    with RedisServer(own_clock=True) as server:
        server.clock.jump(100)
        [node] = nodes(server.url)
    assert node.offset is not None
    assert node.uncertainty is not None
    assert abs(node.offset - 100) <= node.uncertainty + 0.01


def test_a_user_that_may_not_read_the_clock(server: RedisServer) -> None:
    server.command("ACL", "SETUSER", "blind", "on", ">secret", "~*", "&*", "+@all", "-time")
    try:
        [node] = nodes(server.url.replace("://", "://blind:secret@"))
    finally:
        server.command("ACL", "DELUSER", "blind")
    assert "time" in node.error
    assert "secret" not in node.error


def test_how_many_nodes_may_fail(three: RedisMasters) -> None:
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


def test_a_node_that_hangs(three: RedisMasters) -> None:
    three.servers[0].freeze()
    one, two, three_ = nodes(unguarded(three))
    assert one.error
    assert two.answers
    assert three_.answers


def test_nodes_that_were_just_restarted(three: RedisMasters) -> None:
    """They answer, and have no vote."""
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


def test_two_names_for_one_server(three: RedisMasters) -> None:
    one, two, _ = three.servers
    places = f"127.0.0.1:{one.port},127.0.0.1:{two.port},localhost:{one.port}"
    found = nodes(f"redlock://{places}?restart_guard=off")
    assert [(node.quarantine, node.margin) for node in found] == [(inf, -2)] * 3
