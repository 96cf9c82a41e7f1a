"""Requests to an engine, and its answers.

Times are in seconds. `key` is the name with the client's prefix. What an engine was asked, or has
answered, is not changed any more. Messages are not frozen all the same, because that would make
each cost three times as much (0.6 against 0.2 µs), and several are made for every acquire.

The rules that every engine keeps:

1. `Acquire` grants to one holder at a time, with a fence greater than every earlier one of that
   key. If the holder asks again, because the first reply was lost, it gets the same fence. With
   `shares` other than 1, it grants also while other leases with the same `shares` are valid, if
   there is room and no other waits; they may have the same fence.
2. `Extend` moves the end of the holder's own lease to the later of the old and the new one. It
   never brings back one that has ended.
3. `Release` removes all that `holder` has here: the lease, a place in the queue, or an offer that
   it has not confirmed. It changes nothing of other holders.
4. A place in the queue (`Acquire` with `queue`) ends with `Release`, with the grant, or when the
   waiter dies. When the lock becomes free, it is *offered* to the first waiter, and to those behind
   it that may share it; each holds it once it has asked again. It has `OFFER` seconds for that.
   (How each engine notices that a waiter died is in docs/internals.md.)
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
    once: bool = field(default=False, compare=False)
    """Whether this is the only try: `Held` must then mean that another client holds the lock."""
    shares: int = 1
    """How many leases with this number may be valid at once; 0: any number."""


@dataclass(slots=True)
class Extend:
    """Let my lease end no earlier than `ttl` from now."""

    key: str
    holder: str
    ttl: float
    fence: int = 0
    """The lease's own, for nodes of a quorum that have lost it."""
    shares: int = 1
    """As in its `Acquire`, for the same."""


@dataclass(slots=True)
class Release:
    """Remove all that this holder has here."""

    key: str
    holder: str
    wake: bool = True
    """Over a quorum: whether waiters should try. Not after a vote that was lost to a holder."""
    keeps_place: bool = False
    """Over a quorum: only an attempt is released. Its holder goes on waiting."""
    shares: int = 1
    """As in its `Acquire`."""


@dataclass(slots=True)
class Raise:
    """To one node of a quorum: let your counter be `fence`, if I hold your lock and if it is not
    greater already. `Granted` if it is `fence` now."""

    key: str
    holder: str
    fence: int


@dataclass(slots=True)
class Repair:
    """To one node of a quorum that has lost data: restore this lease, unless the lock is held, by
    one that it cannot share it with."""

    key: str
    holder: str
    ttl: float
    fence: int
    shares: int = 1


@dataclass(slots=True)
class Break:
    """Take the lock away from its holders, or from one of them."""

    key: str
    holder: str = ""
    """That one; empty: all. Bytes of another program's id that are no text are surrogates, as
    `surrogateescape` makes them."""

    @property
    def is_text(self) -> bool:
        """Whether an engine that keeps text can have such a holder."""
        return not any("\ud800" <= each <= "\udfff" for each in self.holder)


@dataclass(slots=True)
class List:
    """The held locks whose keys begin with `prefix` and come after `after`, in order."""

    prefix: str
    after: str
    limit: int
    cursor: str = ""
    """Where to go on: that of the last `Listing`."""


@dataclass(slots=True)
class Inspect:
    """Ask for the holder of this lock. Gives a `Listing`."""

    key: str


@dataclass(slots=True)
class Read:
    """Ask for the value of this cell. Gives a `Versioned`."""

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
    """The holder has the lock."""

    fence: int
    holder: str = ""
    """The holder id, if it is another than in the request: that of an attempt of a quorum."""
    ttl: float = 0.0
    """The ttl that the engine gave, if it is another than asked; 0: as asked."""


@dataclass(slots=True)
class Held:
    """Held by another client. `remaining`: seconds until it expires unless renewed. `wakes`: the
    engine notifies this waiter on release."""

    remaining: float
    wakes: bool
    holder: str = ""
    """Its holder id, where a quorum needs it."""


@dataclass(slots=True)
class Done:
    """The request was carried out."""


@dataclass(slots=True)
class NotYours:
    """Nothing was done: the holder does not have the lock, or not any more."""


@dataclass(slots=True)
class Missing:
    """From one node of a quorum: nothing was done, because there is no such lock here. It expired,
    or the node was restarted and has lost it."""


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
    shares: int = 1
    others: tuple[tuple[str, float], ...] = ()
    """If it is shared: holder and remaining seconds of each further lease."""


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
"""What is sent to one node of a quorum."""
Answer: TypeAlias = (
    Granted | Held | Done | NotYours | Missing | Listing | Versioned | Changed | Failed
)


ATTEMPT = "#"
"""Stands between a holder and the number of one of its attempts. No holder id contains it.

An attempt to get a lock of a quorum that fails is released. That release may arrive late: on a lost
connection, it may reach a node behind the next attempt, which went out on another one. So each
attempt has a name of its own. The first has the holder's id, the nth after it is `holder#n`.

1. A node that has an earlier attempt of the same holder gives its vote to the later one.
2. The release of an attempt ends that one and those before it, never a later one.
3. A release in the holder's own name ends all of them.
"""


def attempt_id(holder: str, tries: int) -> str:
    """The name of a holder's attempt after `tries` others.

    >>> attempt_id("me", 0), attempt_id("me", 2)
    ('me', 'me#2')
    """
    return f"{holder}{ATTEMPT}{tries}" if tries else holder


def undoing(holder: str, tries: int) -> str:
    """The name that releases that attempt and those before it.

    >>> undoing("me", 0)
    'me#0'
    """
    return f"{holder}{ATTEMPT}{tries}"


def holder_of(name: str) -> str:
    """The holder of an attempt.

    >>> holder_of("me#2"), holder_of("me")
    ('me', 'me')
    """
    return name.partition(ATTEMPT)[0]
