"""What etcd and ZooKeeper have in common: the rules of a queue of places, of which there is one for
each lock; and how the value of a cell is stored. Pure.

1. Places are in the order of their creation. A holder has the one with which it came, until it
   releases the lock.
2. A place holds the lock if all places before it have the same `shares`, and fewer than that many
   come before it (0: any number). Places before it only ever go, so what has its turn keeps it.
3. A waiter watches what keeps it out, and looks again when that is gone.
4. The fence is the instant of creation, as the servers count. An exclusive lease has a greater one
   than all earlier leases: what comes after its place waits until it is gone, so all that was
   granted before came before it. A shared one has a greater fence than all earlier exclusive
   leases: each of them was the first in the queue, and came before what is there still.
5. No code skips the place of a waiter that died. The servers delete it when its session ends, which
   wakes the next waiter. Until then it keeps those behind it out.
6. A client of the first release waits until its place is the first, and a place without shares is
   exclusive: so it excludes all others, and is excluded by them.
"""

from collections.abc import Callable, Sequence
from itertools import islice, takewhile
from math import inf
from typing import TypeVar

from holdfast.core.messages import Held

P = TypeVar("P")

HELD = Held(10.0, wakes=True)
"""The answer to a waiter, which asks again after some seconds although it was not woken."""


TEXT, BYTES = b"t", b"b"
"""What the stored value of a cell begins with."""


class Rejected(Exception):
    """The request is refused, and would be by any server; the text is the reason. `heals_in` is
    that of `Failed`."""

    def __init__(self, why: str, heals_in: float | None = None) -> None:
        super().__init__(why)
        self.heals_in = heals_in


def write_value(value: bytes | str) -> bytes:
    """The value of a cell as it is stored."""
    return TEXT + value.encode() if isinstance(value, str) else BYTES + value


def read_value(stored: bytes, where: str) -> bytes | str:
    """The value of a cell.

    >>> read_value(write_value("open"), "door"), read_value(write_value(b"open"), "door")
    ('open', b'open')
    """
    kind, raw = stored[:1], stored[1:]
    if kind not in (TEXT, BYTES):
        raise Rejected(f"{where} is not a cell", inf)
    return raw.decode() if kind == TEXT else raw


def in_the_way(before: Sequence[P], shares: int, shares_of: Callable[[P], int]) -> Sequence[P]:
    """Which places keep one with these shares out, given those before it. One of them must go
    before it holds the lock; if there are none, it holds it.

    Of a semaphore, any holder may be the next to go: these are as many places as it has slots.
    Otherwise it is one place: the last before an exclusive one, or the last of another kind.

    >>> in_the_way([1, 1, 1], 1, int), in_the_way([3, 3, 3, 3], 3, int)
    ([1], [3, 3, 3])
    >>> in_the_way([0, 1, 0], 0, int), in_the_way([0, 0], 0, int)
    ([1], [])
    """
    if shares and len(before) >= shares:
        return before[-shares:]
    return [each for each in before if shares_of(each) != shares][-1:]


def holders(places: Sequence[P], shares_of: Callable[[P], int]) -> list[P]:
    """Those at the head of a queue that hold the lock together.

    >>> holders([3, 3, 3, 3], int), holders([0, 0, 1, 0], int), holders([1, 1], int)
    ([3, 3, 3], [0, 0], [1])
    """
    shares = shares_of(places[0]) if places else 1
    return list(islice(takewhile(lambda each: shares_of(each) == shares, places), shares or None))
