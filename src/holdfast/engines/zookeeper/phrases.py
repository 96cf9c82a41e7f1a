"""What can be said to ZooKeeper: calls of kazoo that do not wait, and what a place has in it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from kazoo.exceptions import NoAuthError, NotEmptyError, UnimplementedError

from holdfast.engines.zookeeper.wire import Wire


@dataclass(frozen=True, slots=True)
class Call:
    """Something to say. Gives kazoo's promise of a result."""

    say: Callable[[Wire], Any]
    by_leader: bool = False
    """Whether it is the leader who answers, and not the server that we are connected to."""
    answers: tuple[type[Exception], ...] = ()
    """Errors that are answers to this, and would be none to other calls."""


class Entry(NamedTuple):
    """What the node of a place has in it."""

    ttl: float
    fence: int
    """0: the creation zxid of the node itself."""
    holder: str


def write_entry(entry: Entry) -> bytes:
    """As bytes."""
    return f"{entry.ttl:g} {entry.fence} {entry.holder}".encode()


def read_entry(data: bytes) -> Entry | None:
    """From bytes; None if they are not ours."""
    ttl, _, rest = data.decode(errors="replace").partition(" ")
    fence, _, holder = rest.partition(" ")
    try:
        return Entry(float(ttl), int(fence), holder)
    except ValueError:
        return None


def join(queue: str, prefix: str, entry: bytes) -> Call:
    """Take a place at the end of a queue. Gives its path, and what is known of its node."""
    path = f"{queue}/{prefix}"
    return Call(
        lambda wire: wire.join_async(path, entry),
        by_leader=True,
        answers=(UnimplementedError,),
    )


def move(old: str, new: str, entry: bytes) -> Call:
    """Put a place of this session where one of another session was, in one step."""

    def say(wire: Wire) -> Any:
        change = wire.transaction()
        change.create(new, entry, ephemeral=True)
        change.delete(old)
        return change.commit_async()

    return Call(say, by_leader=True)


def watch(place: str, wake: Callable[[Any], None]) -> Call:
    """Have `wake` called when a place is gone. A watch on its data would be called for each
    renewal, one on the children that it cannot have is not."""
    return Call(lambda wire: wire.get_children_async(place, watch=wake))


def children(path: str) -> Call:
    """The names of the nodes below."""
    return Call(lambda wire: wire.get_children_async(path))


def exists(path: str) -> Call:
    """Whether there is such a node: what is known of it, or None."""
    return Call(lambda wire: wire.exists_async(path))


def get(path: str) -> Call:
    """What is in a node, and what is known of it."""
    return Call(lambda wire: wire.get_async(path))


def put(path: str, data: bytes, version: int = -1) -> Call:
    """Put something into a node, if it is of that version (-1: of any)."""
    return Call(lambda wire: wire.set_async(path, data, version), by_leader=True)


def create(path: str, data: bytes) -> Call:
    """Make a node that stays."""
    return Call(lambda wire: wire.create_async(path, data), by_leader=True)


def node(path: str) -> Call:
    """Make a node to have others below. Who may not may find that it is there."""
    return Call(lambda wire: wire.create_async(path), by_leader=True, answers=(NoAuthError,))


def container(path: str) -> Call:
    """The same, and the server removes it when it has been without children for a while. A server
    that does not know how hangs up when it has said so."""
    answers = (NoAuthError, UnimplementedError)
    return Call(lambda wire: wire.create_container_async(path), by_leader=True, answers=answers)


def delete(path: str) -> Call:
    """Remove a node."""
    return Call(lambda wire: wire.delete_async(path), by_leader=True)


def sweep(path: str) -> Call:
    """Remove a node if there is nothing below."""
    return Call(lambda wire: wire.delete_async(path), by_leader=True, answers=(NotEmptyError,))


def sync() -> Call:
    """Have our server ask the leader how far it has come."""
    return Call(lambda wire: wire.sync_async("/"), by_leader=True)
