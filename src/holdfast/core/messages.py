"""What is said to an engine, and what it says back.

Times are in seconds. `key` is the name with the client's prefix. These are named tuples because
two or three are made for every acquire, and they cost half of what a frozen dataclass does.

What every engine must keep, whatever it is made of:

1. `Acquire` grants to one holder at a time, with a fence greater than every earlier one of that
   key. Asked again by the one who holds it (its first reply was lost), it grants the same fence.
2. `Extend` moves the end of the holder's own lease to the later of the old and the new one. It
   never brings back one that has ended.
3. `Release` gives back whatever `holder` has here: the lease, a place in the queue, or an offer
   that it has not confirmed. It touches nothing of anybody else's.
4. A place in the queue (`Acquire` with `queue`) is given up by `Release`, by the grant, or by
   death. When the lock becomes free, the first in the queue is *offered* it: it holds the lock
   once it has asked again, and has `OFFER` seconds to do so.
"""

from typing import NamedTuple, TypeAlias

OFFER = 0.5
"""How long a woken waiter has to confirm. One that was stopped holds the others up for as long."""


class Acquire(NamedTuple):
    """Take the lock if it is free; `queue` asks for a place in the queue if it is not."""

    key: str
    holder: str
    ttl: float
    queue: bool = False


class Extend(NamedTuple):
    """Let my lease end no earlier than `ttl` from now."""

    key: str
    holder: str
    ttl: float


class Release(NamedTuple):
    """Give back whatever I have here."""

    key: str
    holder: str


class Break(NamedTuple):
    """Take the lock away from whoever has it."""

    key: str


class List(NamedTuple):
    """The held locks whose keys begin with `prefix` and come after `after`, in order."""

    prefix: str
    after: str
    limit: int


class Inspect(NamedTuple):
    """Who holds this one?"""

    key: str


class Granted(NamedTuple):
    """It is yours."""

    fence: int


class Held(NamedTuple):
    """Somebody else's, for that long unless renewed; `wakes`: you will be told when it is free."""

    remaining: float
    wakes: bool


class Done(NamedTuple):
    """What you asked for was done."""


class NotYours(NamedTuple):
    """Nothing was done, because it is not, or no longer, yours."""


class Seen(NamedTuple):
    """One lock as the engine has it."""

    key: str
    holder: str
    fence: int
    remaining: float
    waiters: int | None


class Listing(NamedTuple):
    """What was found."""

    leases: tuple[Seen, ...]


class Failed(NamedTuple):
    """No answer can be had, and nobody knows whether the request was carried out."""

    nodes: tuple[tuple[str, str], ...]

    @classmethod
    def at(cls, node: str, why: str) -> "Failed":
        """A failure of one node."""
        return cls(((node, why),))

    def __str__(self) -> str:
        return "; ".join(f"{node}: {why}" for node, why in self.nodes)


Request: TypeAlias = Acquire | Extend | Release | Break | List | Inspect
Answer: TypeAlias = Granted | Held | Done | NotYours | Listing | Failed
