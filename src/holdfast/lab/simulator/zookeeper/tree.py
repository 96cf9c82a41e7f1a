"""The data of a virtual ZooKeeper: a tree of nodes, and how requests change it.

Requests are kazoo's, and so are the replies, and the errors that are replies.
"""

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from kazoo.exceptions import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
    ZookeeperError,
)
from kazoo.protocol.serialization import (
    Create,
    Create2,
    Delete,
    Exists,
    GetChildren,
    GetData,
    SetData,
    Transaction,
)
from kazoo.protocol.states import ZnodeStat

from holdfast.engines.zookeeper.connection import EPHEMERAL, SEQUENCE


@dataclass(frozen=True, slots=True)
class Node:
    """One node."""

    data: bytes
    created: int
    """The zxid at which it was created."""
    created_at: int
    """When, in milliseconds of the leader's clock."""
    owner: int = 0
    """The session of an ephemeral node."""
    version: int = 0
    children: int = 0
    """How many it has had so far: the number of the next one."""

    @property
    def stat(self) -> ZnodeStat:
        """As kazoo shows it."""
        at, made = self.created_at, self.created
        size = len(self.data)
        return ZnodeStat(
            made, made, at, at, self.version, self.children, 0, self.owner, size, 0, made
        )


Change: TypeAlias = dict[str, Node | None]
"""By path, what becomes of a node."""


@dataclass(frozen=True, slots=True)
class Writer:
    """For whom, and when, the leader carries out a request."""

    session: int
    zxid: int
    now: int


class Tree:
    """The nodes by path; the root's is empty."""

    def __init__(self, nodes: dict[str, Node]) -> None:
        self.nodes = nodes

    def copy(self) -> "Tree":
        return Tree(dict(self.nodes))

    def apply(self, change: Change) -> None:
        for path, node in change.items():
            if node is None:
                del self.nodes[path]
            else:
                self.nodes[path] = node

    def read(self, request: Any) -> Any:
        """Answer a request that changes nothing."""
        if isinstance(request, Exists):
            node = self.nodes.get(request.path)
            return node and node.stat
        node = self._there(request.path)
        return (node.data, node.stat) if isinstance(request, GetData) else self.below(request.path)

    def below(self, path: str) -> list[str]:
        """The names of its children."""
        return [each.rpartition("/")[2] for each in self.nodes if is_child(each, path)]

    def write(self, request: Any, writer: Writer) -> tuple[Change, Any]:
        """What a request changes, and the reply; an error is raised, and changes nothing."""
        match request:
            case Create() | Create2():
                return self._create(request, writer)
            case Delete(path=path):
                self._there(path)
                if self.below(path):
                    raise NotEmptyError
                return {path: None}, True
            case SetData(path=path, data=data, version=version):
                node = self._there(path)
                if version not in (-1, node.version):
                    raise BadVersionError
                node = replace(node, data=data, version=node.version + 1)
                return {path: node}, node.stat
            case Transaction(operations=operations):
                return self._all_or_nothing(operations, writer)
        raise TypeError(f"unexpected request: {request}")

    def closed(self, session: int) -> Change:
        """What the end of a session changes."""
        return {path: None for path, node in self.nodes.items() if node.owner == session}

    def _create(self, request: Any, writer: Writer) -> tuple[Change, Any]:
        path, flags = request.path, request.flags
        above = path.rpartition("/")[0]
        parent = self._there(above)
        if flags & SEQUENCE:
            path = f"{path}{parent.children:010d}"
        if path in self.nodes:
            raise NodeExistsError
        owner = writer.session if flags & EPHEMERAL else 0
        node = Node(request.data, writer.zxid, writer.now, owner)
        change: Change = {above: replace(parent, children=parent.children + 1), path: node}
        return change, (path, node.stat) if isinstance(request, Create2) else path

    def _all_or_nothing(self, operations: Any, writer: Writer) -> tuple[Change, list[Any]]:
        scratch, change = self.copy(), Change()
        replies: list[Any] = []
        for number, each in enumerate(operations):
            try:
                part, reply = scratch.write(each, writer)
            except ZookeeperError as error:
                after = [RuntimeInconsistency() for _ in operations[number + 1 :]]
                return {}, [*(RolledBackError() for _ in replies), error, *after]
            scratch.apply(part)
            change.update(part)
            replies.append(reply)
        return change, replies

    def _there(self, path: str) -> Node:
        if path not in self.nodes:
            raise NoNodeError
        return self.nodes[path]


def is_child(path: str, above: str) -> bool:
    """Whether one node is right below another."""
    return path != "" and path.rpartition("/")[0] == above


READS = (Exists, GetChildren, GetData)
"""What a server answers by itself."""
