"""Where things are: the paths of queues and cells, and the names of the places in a queue.

    /chroot/holdfast/locks/<key>/<session>_<secret>_<number>    a place in the queue for a lock
    /chroot/holdfast/cells/<key>                                a cell

A place is an ephemeral node. Its number is given by the server and says who comes first. Session
and secret are given by us before it is made, so that it is found again if the reply was lost, and
is not mistaken for ours if it was made in a session that has ended since. The number of one who
waits has a `w` before it; without that, it is of one who only tried.
"""

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import quote, unquote

ALL, HALF = 2**32, 2**31
SESSION = 2**64 - 1
WAITS = "w"


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
    """The key again."""
    return unquote(name)


class Place(NamedTuple):
    """A place in a queue, as its name tells."""

    session: int
    secret: str
    waits: bool
    number: int
    name: str


def prefix(session: int, holder: str, *, waits: bool) -> str:
    """What the name of a holder's place begins with; the server appends its number."""
    return f"{session & SESSION:x}_{secret_of(holder)}_{WAITS if waits else ''}"


def secret_of(holder: str) -> str:
    """The part of a holder id that nobody else has."""
    return quote(holder.rpartition("/")[2], safe="")


def name_of(session: int, holder: str, number: int) -> str:
    """The whole name of a holder's place whose number is known."""
    return f"{prefix(session, holder, waits=False)}{number:010d}"


def number_of(place: str) -> int:
    """The number of a place of ours.

    >>> number_of("/holdfast/locks/door/1f_secret_-2147483648")
    -2147483648
    """
    return int(place.rpartition("_")[2].removeprefix(WAITS))


def read_place(name: str) -> Place | None:
    """What a name tells; None if it is not one of ours.

    >>> read_place("1f_secret_w0000000007")
    Place(session=31, secret='secret', waits=True, number=7, name='1f_secret_w0000000007')
    """
    session, _, rest = name.partition("_")
    secret, _, number = rest.rpartition("_")
    waits = number.startswith(WAITS)
    try:
        return Place(int(session, 16), secret, waits, number_of(name), name) if secret else None
    except ValueError:
        return None


def in_order(names: Iterable[str]) -> list[Place]:
    """The places of a queue, the first first.

    The server counts with 32 bits and goes on with the least number after the greatest. A queue is
    always shorter than half of that, so the one that is ahead by less than half is the later one.
    """
    places = [place for place in map(read_place, names) if place is not None]
    if not places:
        return []
    somewhere = places[0].number
    return sorted(places, key=lambda p: ((p.number - somewhere + HALF) % ALL, p.name))
