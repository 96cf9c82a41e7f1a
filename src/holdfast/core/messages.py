"""What is said to an engine, and what it says back.

Times are in seconds. `key` is the name with the client's prefix. Nobody changes a message. They are
not frozen all the same, because that would make each cost three times as much (0.6 against 0.2 µs),
and several are made for every acquire.

What every engine must keep, whatever it is made of:

1. `Acquire` grants to one holder at a time, with a fence greater than every earlier one of that
   key. Asked again by the one who holds it (its first reply was lost), it grants the same fence.
2. `Extend` moves the end of the holder's own lease to the later of the old and the new one. It
   never brings back one that has ended.
3. `Release` gives back whatever `holder` has here: the lease, a place in the queue, or an offer
   that it has not confirmed. It touches nothing of anybody else's.
4. A place in the queue (`Acquire` with `queue`) is given up by `Release`, by the grant, or by
   death. When the lock becomes free, the first in the queue is *offered* it: it holds the lock
   once it has asked again, and has `OFFER` seconds to do so. If the engine has heard from it only
   just before, it may say `HandedOver` instead: then it holds the lock already.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from holdfast.core.records import Versioned

OFFER = 0.5
"""How long a woken waiter has to confirm. One that was stopped holds the others up for as long."""


@dataclass(slots=True)
class Acquire:
    """Take the lock if it is free; `queue` asks for a place in the queue if it is not."""

    key: str
    holder: str
    ttl: float
    queue: bool = False
    proposed: int = 0
    """A fence that all nodes of a quorum might agree on; 0: the engine finds one by itself."""
    tries: int = field(default=0, compare=False)
    """How often the holder has asked for the same before, which a quorum must know."""
    renew: bool = field(default=True, compare=False)
    """Whether it will be renewed: then it may end together with other leases of this client."""
    once: bool = field(default=False, compare=False)
    """Whether this is the only try: `Held` must then mean that another client holds the lock."""


@dataclass(slots=True)
class Extend:
    """Let my lease end no earlier than `ttl` from now."""

    key: str
    holder: str
    ttl: float
    fence: int = 0
    """The lease's own, for nodes of a quorum that have forgotten it."""


@dataclass(slots=True)
class Release:
    """Give back whatever I have here."""

    key: str
    holder: str
    wake: bool = True
    """Over a quorum: whether waiters should try. Not after a vote that was lost to a holder."""


@dataclass(slots=True)
class Raise:
    """To one node of a quorum: let your counter be `fence`, if I hold your lock and if it is not
    greater already. `Granted` if it is `fence` now."""

    key: str
    holder: str
    fence: int


@dataclass(slots=True)
class Repair:
    """To one node of a quorum that has forgotten: put my lease back, unless it is somebody's."""

    key: str
    holder: str
    ttl: float
    fence: int


@dataclass(slots=True)
class Break:
    """Take the lock away from whoever has it."""

    key: str


@dataclass(slots=True)
class List:
    """The held locks whose keys begin with `prefix` and come after `after`, in order."""

    prefix: str
    after: str
    limit: int
    cursor: str = ""
    """Where to go on, as the last `Listing` said."""


@dataclass(slots=True)
class Inspect:
    """Who holds this one?"""

    key: str


@dataclass(slots=True)
class Read:
    """What is in this cell? Gives a `Versioned`."""

    key: str


@dataclass(slots=True)
class Write:
    """Put this into the cell if its version is still `expect` (0: if it was never set), and give it
    a greater version, in one indivisible step."""

    key: str
    value: bytes | str
    expect: int


@dataclass(slots=True)
class Granted:
    """It is yours."""

    fence: int
    holder: str = ""
    """In whose name, if it is another than asked: an attempt of a quorum."""
    ttl: float = 0.0
    """The ttl that the engine gave, if it is another than asked; 0: as asked."""


@dataclass(slots=True)
class HandedOver:
    """To one who waits, unasked: it is yours, since some instant after the request that I mean."""

    fence: int
    tries: int
    """How often you had asked before that request."""


@dataclass(slots=True)
class Held:
    """Somebody else's, for that long unless renewed; `wakes`: you will be told when it is free."""

    remaining: float
    wakes: bool
    holder: str = ""
    """Whose, where a quorum must know."""


@dataclass(slots=True)
class Done:
    """What you asked for was done."""


@dataclass(slots=True)
class NotYours:
    """Nothing was done, because it is not, or no longer, yours."""


@dataclass(slots=True)
class Missing:
    """From one node of a quorum: nothing was done, because there is no such lock here. It expired,
    or the node was restarted and has forgotten."""


@dataclass(slots=True)
class Changed:
    """Nothing was written, because the cell has another version by now."""


DONE, NOT_YOURS, MISSING, CHANGED = Done(), NotYours(), Missing(), Changed()


@dataclass(slots=True)
class Seen:
    """One lock as the engine has it."""

    key: str
    holder: str
    fence: int
    remaining: float
    waiters: int | None


@dataclass(slots=True)
class Listing:
    """What was found."""

    leases: tuple[Seen, ...]
    cursor: str = ""
    """Not empty: the search is not over; ask for the same page again with this cursor."""


@dataclass(slots=True)
class Failed:
    """There is no answer, and the outcome of the request is unknown."""

    nodes: tuple[tuple[str, str], ...]
    heals_in: float | None = None
    """Seconds until it heals by itself (a quarantine); infinite if waiting will not help (a wrong
    password, a missing right); None if unknown: worth another try."""

    @classmethod
    def at(cls, node: str, why: str, heals_in: float | None = None) -> "Failed":
        """A failure of one node."""
        return cls(((node, why),), heals_in)

    def __str__(self) -> str:
        return "; ".join(f"{node}: {why}" for node, why in self.nodes)


Request: TypeAlias = Acquire | Extend | Release | Break | List | Inspect | Read | Write
ToNode: TypeAlias = Request | Raise | Repair
"""What is said to one node of a quorum."""
Answer: TypeAlias = (
    Granted | Held | Done | NotYours | Missing | Listing | Versioned | Changed | Failed
)
