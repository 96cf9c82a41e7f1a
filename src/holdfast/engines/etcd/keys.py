"""How names become etcd keys.

A lock is a queue: a key for each who holds it or waits for it, `name\\0lock\\0holder`, in the order
of their creation; the first one holds it. A key may be used again by another holder, who is then
named by its value: see `spares`. A cell is `name\\0cell`. No name contains NUL, so names
cannot be confused, and the keys are in the order of the names.
"""

from typing import NamedTuple


class Span(NamedTuple):
    """All keys from the first up to, but not including, the second."""

    first: bytes
    end: bytes


def queue_of(key: str) -> Span:
    """Where the queue of a lock is.

    >>> queue_of("holdfast:door")
    Span(first=b'holdfast:door\\x00lock\\x00', end=b'holdfast:door\\x00lock\\x01')
    """
    name = key.encode()
    return Span(name + b"\0lock\0", name + b"\0lock\1")


def place_of(key: str, holder: str) -> bytes:
    """The key of one in the queue, if it is a new one."""
    return b"%b\0lock\0%b" % (key.encode(), holder.encode())


def cell_of(key: str) -> bytes:
    """The key of a cell."""
    return key.encode() + b"\0cell"


def names_after(prefix: str, last: str) -> Span:
    """Where the names are that begin with `prefix` and come after `last`."""
    start = prefix.encode()
    # No byte of UTF-8 is 0xff; and a range that ends with NUL has no end.
    end = start[:-1] + bytes((start[-1] + 1,)) if start else b"\0"
    return Span(max(start, last.encode() + b"\1"), end)


def read_place(place: bytes) -> tuple[str, str] | None:
    """The lock of a key, and who was the first to use it; None if it is no place in a queue.

    >>> read_place(place_of("holdfast:door", "web-3/1/x/5"))
    ('holdfast:door', 'web-3/1/x/5')
    """
    name, _, rest = place.partition(b"\0")
    kind, _, holder = rest.partition(b"\0")
    if kind != b"lock" or not holder:
        return None
    return name.decode(errors="replace"), holder.decode(errors="replace")
