"""The tree of the virtual ZooKeeper answers as a real server does."""

from dataclasses import replace
from typing import Any

import pytest
from kazoo.exceptions import NotEmptyError, ZookeeperError
from kazoo.protocol.states import ZnodeStat

from holdfast.engines.zookeeper import commands
from holdfast.engines.zookeeper.commands import Call, parents
from holdfast.engines.zookeeper.connection import Connection, Servers
from holdfast.lab.simulator.zookeeper.tree import READS, Node, Tree, Writer
from tests.equipment.servers.zookeeper import ZooKeeperServer

QUEUE = "/a/queue"
FIRST, SECOND = f"{QUEUE}/one_0000000000", f"{QUEUE}/two_0000000001"

CALLS = [
    commands.join(QUEUE, "early_", b"no queue"),
    commands.children(QUEUE),
    commands.container(QUEUE),
    *(commands.node(path) for path in parents("/a")),
    commands.container(QUEUE),
    commands.container(QUEUE),
    commands.join(QUEUE, "one_", b"1"),
    commands.join(QUEUE, "two_", b"2"),
    commands.children(QUEUE),
    commands.put(FIRST, b"1 again"),
    commands.put(FIRST, b"of a version", 1),
    commands.put(FIRST, b"of an old version", 1),
    commands.put(f"{QUEUE}/missing", b""),
    commands.get(FIRST),
    commands.get(f"{QUEUE}/missing"),
    commands.exists(SECOND),
    commands.exists(f"{QUEUE}/missing"),
    replace(commands.delete(QUEUE), answers=(NotEmptyError,)),
    commands.move(FIRST, f"{QUEUE}/moved_0000000000", b"moved"),
    commands.move(FIRST, f"{QUEUE}/again_0000000000", b"moved"),
    commands.move(SECOND, f"{QUEUE}/moved_0000000000", b"moved"),
    commands.children(QUEUE),
    commands.delete(SECOND),
    commands.delete(SECOND),
    commands.join(QUEUE, "three_", b"3"),
    commands.create("/a/cell", b"value"),
    commands.create("/a/cell", b"value"),
    commands.delete("/a/cell"),
]


class Virtual(Connection):
    """kazoo's client over a tree, without a server."""

    def __init__(self) -> None:
        servers = Servers(("127.0.0.1:1",))
        super().__init__(servers, 10.0, 1.0, lambda shortest: 10.0, lambda *_: None)
        self.tree, self._zxid = Tree({"": Node(b"", 0, 0)}), 0

    def _call(self, request: Any, async_object: Any) -> None:
        try:
            if isinstance(request, READS):
                async_object.set(self.tree.read(request))
                return
            self._zxid += 1
            change, reply = self.tree.write(request, Writer(7, self._zxid, 0))
        except ZookeeperError as error:
            async_object.set_exception(error)
        else:
            self.tree.apply(change)
            async_object.set(reply)


def answer(call: Call, connection: Any) -> object:
    """What is answered, without what differs from server to server."""
    try:
        return plain(call.send(connection).get(timeout=10))
    except ZookeeperError as error:
        return type(error)


def plain(reply: Any) -> object:
    if isinstance(reply, ZnodeStat):
        return reply.version, reply.ephemeralOwner != 0, reply.dataLength
    if isinstance(reply, (list, tuple)):
        return sorted(repr(plain(each)) for each in reply)
    return type(reply) if isinstance(reply, Exception) else reply


@pytest.mark.slow
def test_it_answers_as_a_real_server_does() -> None:
    with ZooKeeperServer() as server:
        connection = Connection(
            Servers((server.address,)), 10.0, 1.0, lambda shortest: 10.0, lambda *_: None
        )
        connection.start()
        try:
            virtual = Virtual()
            for number, call in enumerate(CALLS):
                assert answer(call, virtual) == answer(call, connection), number
        finally:
            connection.end(5.0)


def test_a_session_takes_its_nodes_with_it() -> None:
    virtual = Virtual()
    for call in CALLS[3:8]:
        answer(call, virtual)
    virtual.tree.apply(virtual.tree.closed(7))
    assert virtual.tree.below(QUEUE) == []
