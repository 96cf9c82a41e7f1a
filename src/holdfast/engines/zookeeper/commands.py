"""What is sent to ZooKeeper: the names of its nodes, what is in them, and requests. Pure.

    /chroot/holdfast/locks/<key>/<session>_<secret>_<number>    a place in the queue for a lock
    /chroot/holdfast/cells/<key>                                a cell

A place is an ephemeral node. The server assigns its number, which gives the order. Session and
secret are chosen before it is created, so that it is found again if the reply was lost, and is not
taken for the client's own if it was created in a session that has ended since. The number of a
waiter has a `w` before it; without that, it is of a client that only tried.

The place of a semaphore or a read lock has its shares behind the secret, `secret=3` or `secret=0`;
without that it is exclusive. A client of the first release takes that for a part of the secret.
`engines.queue` has the rules.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from kazoo.exceptions import NoAuthError

from holdfast.engines.zookeeper.connection import Connection

ALL, HALF = 2**32, 2**31
SESSION = 2**64 - 1
WAITS = "w"
SHARES = "="
"""Which no secret contains, being quoted."""
PLACE = re.compile(f"([0-9a-f]+)_([^/]+?)(?:{SHARES}([0-9]+))?_({WAITS}?)(-?[0-9]+)")


class Tree:
    """The paths below a chroot."""

    def __init__(self, chroot: str) -> None:
        self.locks = f"{chroot}/holdfast/locks"
        self.cells = f"{chroot}/holdfast/cells"

    def queue(self, key: str) -> str:
        """The node whose children are the places in the queue for a lock."""
        return f"{self.locks}/{encode(key)}"

    def cell(self, key: str) -> str:
        """The node of a cell."""
        return f"{self.cells}/{encode(key)}"


def parents(path: str) -> list[str]:
    """A path and all above it, the topmost first.

    >>> parents("/a/b")
    ['/a', '/a/b']
    """
    words = path.split("/")
    return ["/".join(words[:end]) for end in range(2, len(words) + 1)]


def encode(key: str) -> str:
    """A key as the name of a node. Distinct keys have distinct names.

    >>> encode("holdfast:a/b"), encode("..")
    ('holdfast:a%2Fb', '%2E%2E')
    """
    if key in (".", ".."):
        return key.replace(".", "%2E")
    return quote(key, safe=":@ ,;=+")


def decode(name: str) -> str:
    """The key of a node's name."""
    return unquote(name)


class Place(NamedTuple):
    """A place in a queue, as read from its name."""

    session: int
    secret: str
    waits: bool
    number: int
    name: str
    shares: int


def prefix(session: int, holder: str, *, waits: bool, shares: int = 1) -> str:
    """What the name of a holder's place begins with; the server appends its number."""
    kind = "" if shares == 1 else f"{SHARES}{shares}"
    return f"{session & SESSION:x}_{secret_of(holder)}{kind}_{WAITS if waits else ''}"


def secret_of(holder: str) -> str:
    """The part of a holder id that is unique."""
    return quote(holder.rpartition("/")[2], safe="")


def name_of(session: int, holder: str, number: int, shares: int = 1) -> str:
    """The whole name of a holder's place whose number is known."""
    return f"{prefix(session, holder, waits=False, shares=shares)}{number:010d}"


def number_of(place: str) -> int:
    """The number of a place.

    >>> number_of("/holdfast/locks/door/1f_secret_-2147483648")
    -2147483648
    """
    return int(place.rpartition("_")[2].removeprefix(WAITS))


def read_place(name: str) -> Place | None:
    """The place with that name; None if it is not one of holdfast's.

    >>> read_place("1f_secret=3_w7")
    Place(session=31, secret='secret', waits=True, number=7, name='1f_secret=3_w7', shares=3)
    """
    if (found := PLACE.fullmatch(name)) is None:
        return None
    session, secret, shares, waits, number = found.groups()
    return Place(int(session, 16), secret, bool(waits), int(number), name, int(shares or 1))


def in_order(names: Iterable[str]) -> list[Place]:
    """The places of a queue, the first one first.

    The server counts with 32 bits and goes on with the least number after the greatest. A queue is
    always shorter than half of that, so the one that is ahead by less than half is the later one.
    """
    places = [place for place in map(read_place, names) if place is not None]
    if not places:
        return []
    somewhere = places[0].number
    return sorted(places, key=lambda p: ((p.number - somewhere + HALF) % ALL, p.name))


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
    """From bytes; None if they are not holdfast's."""
    ttl, _, rest = data.decode(errors="replace").partition(" ")
    fence, _, holder = rest.partition(" ")
    try:
        return Entry(float(ttl), int(fence), holder)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `send` gives kazoo's `AsyncResult`."""

    send: Callable[[Connection], Any]
    by_leader: bool = False
    """Whether the leader answers it, and not the server that the client is connected to."""
    answers: tuple[type[Exception], ...] = ()
    """Errors that are answers to this request, and to no other."""


def join(queue: str, prefix: str, entry: bytes) -> Call:
    """Create a place at the end of a queue; the reply has its path, and its node's `Stat`."""
    path = f"{queue}/{prefix}"
    return Call(lambda connection: connection.join_async(path, entry), by_leader=True)


def move(old: str, new: str, entry: bytes) -> Call:
    """Replace a place of another session by one of this session, in one step."""

    def send(connection: Connection) -> Any:
        change = connection.transaction()
        change.create(new, entry, ephemeral=True)
        change.delete(old)
        return change.commit_async()

    return Call(send, by_leader=True)


def watch(place: str, wake: Callable[[Any], None]) -> Call:
    """Have `wake` called when a place is gone. A watch on its data would be called for each
    renewal; one on its children, which it cannot have, is not."""
    return Call(lambda connection: connection.get_children_async(place, watch=wake))


def children(path: str) -> Call:
    """The names of the nodes below."""
    return Call(lambda connection: connection.get_children_async(path))


def exists(path: str) -> Call:
    """The `Stat` of a node, or None."""
    return Call(lambda connection: connection.exists_async(path))


def get(path: str) -> Call:
    """What is in a node, and its `Stat`."""
    return Call(lambda connection: connection.get_async(path))


def put(path: str, data: bytes, version: int = -1) -> Call:
    """Write a node, if it is of that version (-1: of any)."""
    return Call(lambda connection: connection.set_async(path, data, version), by_leader=True)


def create(path: str, data: bytes) -> Call:
    """Create a persistent node."""
    return Call(lambda connection: connection.create_async(path, data), by_leader=True)


def node(path: str) -> Call:
    """Create a node to have others below. A client without the right may find that it exists."""
    return Call(
        lambda connection: connection.create_async(path), by_leader=True, answers=(NoAuthError,)
    )


def container(path: str) -> Call:
    """The same, and the server removes it when it has been without children for a while."""
    return Call(
        lambda connection: connection.create_container_async(path),
        by_leader=True,
        answers=(NoAuthError,),
    )


def delete(path: str) -> Call:
    """Delete a node."""
    return Call(lambda connection: connection.delete_async(path), by_leader=True)


def sync() -> Call:
    """Have the server catch up with the leader."""
    return Call(lambda connection: connection.sync_async("/"), by_leader=True)
