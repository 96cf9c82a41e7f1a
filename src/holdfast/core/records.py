"""The records that users see: what an engine promises, what it knows of a lease, and who leads."""

import re
from dataclasses import dataclass, field
from math import inf
from typing import Literal, NamedTuple
from urllib.parse import unquote


@dataclass(frozen=True, slots=True)
class Guarantees:
    """What an engine promises, and what ends the promise, without flattery.

    >>> import holdfast
    >>> with holdfast.Client("memory://") as client:
    ...     client.guarantees.suits
    'efficiency'
    """

    engine: str
    """The engine in a few words."""
    exclusion: str
    """The clients of which at most one holds the lock."""
    broken_by: tuple[str, ...]
    """What can break mutual exclusion all the same."""
    fence: str
    """Where the fencing token comes from."""
    fence_ends: str
    """What would end its growth."""
    fairness: str
    """In which order waiters get the lock."""
    wake_up: str
    """How a waiter learns that the lock is free."""
    suits: Literal["efficiency", "correctness"]
    """`correctness`: two at once would do damage, and this engine keeps them apart. `efficiency`:
    two at once would only waste work."""
    min_ttl: float
    max_ttl: float
    ttl_step: float
    """A ttl is rounded up to a multiple of this; 0 means that any will do."""


class Versioned(NamedTuple):
    """What a cell had in it when it was read, and which version of it that was.

    >>> import holdfast
    >>> with holdfast.Client("memory://versioned-example") as client:
    ...     client.cell("stock").get()
    Versioned(value=None, version=0)
    """

    value: bytes | str | None
    """As it was set, bytes or text; None if it never was."""
    version: int
    """Greater than that of every earlier value; 0 if it was never set."""


# The secret to its last digit: what other programs write may have slashes and numbers in it, too.
# The number of an attempt may follow (see `messages.ATTEMPT`).
_HOLDER = re.compile(r"([^/]+)/([0-9]{1,10})/([^/+]+)(?:\+([^/]*))?/([0-9a-f]{32})(?:#[0-9]+)?")

_TIMED = re.compile(r"([0-9a-f]{12})fa57[0-9a-f]{16}")
"""A secret that begins with the milliseconds since 1970 at which it was made. Those of the first
release do not; one in 65,536 of them looks as if it did."""

_YEAR_9999 = 253_370_764_800.0
"""Dates end with it; what is said to be later was written by another program."""


def secret_at(now: float, randomness: bytes) -> str:
    """The last part of a holder id; `randomness`: eight bytes.

    >>> secret_at(1_800_000_000.0, bytes(8))
    '01a3185c5000fa570000000000000000'
    """
    return f"{int(now * 1000):012x}fa57{randomness.hex()}"


@dataclass(frozen=True, slots=True)
class Label:
    """Host, pid and program of a holder, and the text of its `label=`, as its holder id names them.

    >>> Label("web-3", 4711, "nightly.py")
    Label(host='web-3', pid=4711, program='nightly.py', text='', asked_at=None)
    """

    host: str
    pid: int
    program: str
    text: str = ""
    """What was given as `label=`; empty if nothing was."""
    asked_at: float | None = field(default=None, compare=False)
    """When it asked for the lock, by its own clock, in seconds since 1970; None if unknown."""

    @classmethod
    def of(cls, holder: str) -> "Label | None":
        """Read the label out of a `holder` id: `host/pid/program/secret`, where a `+` and the text,
        percent-encoded, may follow the program; None if it has none.

        >>> Label.of("web-3/4711/app.py+blue%20fleet/01a3185c5000fa5790c3d65af0b1e284")
        Label(host='web-3', pid=4711, program='app.py', text='blue fleet', asked_at=1800000000.0)
        """
        if not (parts := _HOLDER.fullmatch(holder)):
            return None
        host, pid, program, text, secret = parts.groups(default="")
        timed = _TIMED.fullmatch(secret)
        asked_at = int(timed[1], 16) / 1000 if timed else inf
        return cls(
            host, int(pid), program, unquote(text), asked_at if asked_at < _YEAR_9999 else None
        )


@dataclass(frozen=True, slots=True)
class Member:
    """One of the holders of a lock.

    >>> Member("web-3/4711/nightly.py/1f0c5d8e21a94b7790c3d65af0b1e284", 2.5).label.program
    'nightly.py'
    """

    holder: str
    remaining: float
    """Seconds until its lease ends unless it is renewed."""

    @property
    def label(self) -> Label | None:
        """Host, pid, program and `label=` of the holder, if it was taken by holdfast."""
        return Label.of(self.holder)


@dataclass(frozen=True, slots=True)
class LeaseInfo:
    """What the engine knows of a held lock. If it is shared, `holder`, `remaining` and `label` are
    those of the first of `members`.

    >>> import holdfast
    >>> with holdfast.Client("memory://lease-info-example") as client:
    ...     with client.lock("job", ttl=5):
    ...         info = client.inspect("job")
    ...     (info.name, info.fence, info.waiters)
    ('job', 1, 0)
    """

    name: str
    holder: str
    fence: int
    remaining: float
    """Seconds until it ends unless it is renewed."""
    waiters: int | None
    """How many clients wait for it; None where the engine does not count them."""
    shares: int = 1
    """How many may hold it at once: 1 for a lock, the slots of a semaphore, 0 for a read lock."""
    members: tuple[Member, ...] = ()
    """All holders."""

    @property
    def label(self) -> Label | None:
        """Host, pid, program and `label=` of the holder, if it was taken by holdfast."""
        return Label.of(self.holder)


@dataclass(frozen=True, slots=True)
class Finding:
    """What `diagnose()` found about a server.

    >>> print(Finding("warning", "10.0.0.7:6379", "it has restarted 5 s ago", "why", "what to do"))
    warning: 10.0.0.7:6379: it has restarted 5 s ago
    """

    severity: Literal["critical", "warning", "note"]
    """`critical`: locks do not work, or do not exclude each other. `warning`: a failure away from
    that. `note`: good to know."""
    where: str
    """Which server, or what else it is about."""
    what: str
    """What was found."""
    why: str
    """Why it matters for a lock."""
    mend: str
    """What to do about it; empty if nothing is to be done."""

    def __str__(self) -> str:
        return f"{self.severity}: {self.where}: {self.what}"


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A server that the URL names, as `nodes()` has just seen it.

    >>> node = NodeInfo("10.0.0.7:6379", round_trip=0.0004, offset=-0.02, uncertainty=0.0002)
    >>> node.answers, node.quarantine, node.margin
    (True, 0.0, None)
    """

    name: str
    error: str = ""
    """Why it does not answer; empty if it does."""
    round_trip: float | None = None
    """Seconds that it took to answer, the shortest of a few; None if it did not."""
    offset: float | None = None
    """Seconds that its clock is ahead of this host's; None if it did not answer, or does not tell
    the time, as etcd and ZooKeeper."""
    uncertainty: float | None = None
    """How many seconds `offset` may be wrong by."""
    quarantine: float = 0.0
    """Seconds until its votes count, since it has restarted; infinite: another name of the quorum
    leads to the same server, so no node has a vote."""
    margin: int | None = None
    """How many servers of its quorum or cluster may fail before no lock can be acquired; less than
    0: how many are missing. None if there is one server, or the URL does not name them all."""

    @property
    def answers(self) -> bool:
        """Whether it answers."""
        return not self.error


@dataclass(frozen=True, slots=True)
class Leader:
    """The winner of an election, and what it has published. Two are equal if nothing has changed.

    >>> leader = Leader("10.0.0.7:80", 42, "web-3/4711/app.py/1f0c5d8e21a94b7790c3d65af0b1e284")
    >>> leader.value, leader.term, leader.label.host
    ('10.0.0.7:80', 42, 'web-3')
    """

    value: str
    """What it published, as `value=`; empty if it gave none."""
    term: int
    """The fence of its lease: greater than that of every earlier leader."""
    holder: str
    """The holder id of its lease."""

    @property
    def label(self) -> Label | None:
        """Host, pid, program and `label=` of the leader."""
        return Label.of(self.holder)
