"""Events: what happens to locks and nodes, as frozen records.

A client hands each to its hooks, `Client(url, hooks=[...])`, in a thread of the hook's own: one
that is slow, blocks or raises delays no lock. The troubles among them are logged, too, on the
logger `holdfast`; all of them are, if it is at the level DEBUG when the client is made.

>>> import holdfast
>>> from holdfast.events import Acquired, Event
>>> waits = []
>>> def measure(event: Event) -> None:
...     match event:
...         case Acquired(name=name, waited=waited):
...             waits.append((name, waited < 60))
>>> with holdfast.Client("memory://events-example", hooks=[measure]) as client:
...     with client.lock("report"):
...         pass
>>> waits
[('report', True)]
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What all events have in common. `str(event)` is one line about it."""

    level: ClassVar[int] = logging.WARNING
    """At which level it is logged."""
    line: ClassVar[str] = ""
    """What `str(event)` fills with its fields."""
    at: float = field(default_factory=time.time, compare=False)
    """When it happened, in seconds since 1970: for people and traces. No lock depends on it."""

    def __str__(self) -> str:
        return self.line.format(**{each.name: getattr(self, each.name) for each in fields(self)})

    @property
    def facts(self) -> Mapping[str, object]:
        """Its fields, for structured logs: `event` is what happened, and `lock` the name of the
        lock. Of a holder id it has host, pid, program and label, and not the secret.

        >>> NodeRecovered("10.0.0.7:6379").facts
        {'event': 'NodeRecovered', 'node': '10.0.0.7:6379', 'margin': None}
        """
        found: dict[str, object] = {"event": type(self).__name__}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name == "name":
                found["lock"] = value
            elif each.name == "holder":
                found["holder"] = value.rpartition("/")[0]
            elif each.name != "at":
                found[each.name] = value
        return found


@dataclass(frozen=True, slots=True)
class LockEvent(Event):
    """What the events of one lock have in common."""

    name: str
    holder: str
    """The holder id of the request, or of the lease, as `inspect` shows it."""

    @property
    def request(self) -> str:
        """What all events of one request have in common, and those of the lease that it led to.

        >>> Requested("job", "web-3/7/app.py/1f0c5d8e21a94b7790c3d65af0b1e284#2", 1, None).request
        'web-3/7/app.py/1f0c5d8e21a94b7790c3d65af0b1e284'
        """
        return self.holder.partition("#")[0]


@dataclass(frozen=True, slots=True)
class Requested(LockEvent):
    """A lock was asked for.

    >>> print(Requested("job", "web-3/7/app.py/1f0c", 1, None))
    asking for 'job'
    """

    level: ClassVar[int] = logging.DEBUG
    line: ClassVar[str] = "asking for {name!r}"
    shares: int
    """How many may hold it at once: 1 for a lock, the slots of a semaphore, 0 for a read lock."""
    timeout: float | None
    """How long the caller is willing to wait; None: without a limit."""


@dataclass(frozen=True, slots=True)
class Waiting(LockEvent):
    """Another client holds it, so the caller waits.

    >>> print(Waiting("job", "web-3/7/app.py/1f0c", 12.0))
    waiting for 'job', which another client holds for 12.000 s, unless it renews that
    """

    level: ClassVar[int] = logging.DEBUG
    line: ClassVar[str] = (
        "waiting for {name!r}, which another client holds for {remaining:.3f} s, "
        "unless it renews that"
    )
    remaining: float
    """Seconds until the lease of its holder ends unless it is renewed."""


@dataclass(frozen=True, slots=True)
class Acquired(LockEvent):
    """A lock was acquired.

    >>> print(Acquired("job", "web-3/7/app.py/1f0c", 42, 1, 0.25))
    acquired 'job' (fence 42) after 0.250 s
    """

    level: ClassVar[int] = logging.DEBUG
    line: ClassVar[str] = "acquired {name!r} (fence {fence}) after {waited:.3f} s"
    fence: int
    shares: int
    waited: float
    """Seconds since it was asked for."""


@dataclass(frozen=True, slots=True)
class NotAcquired(LockEvent):
    """The caller gave up: its timeout passed, the engine failed, or it was interrupted.

    >>> print(NotAcquired("job", "web-3/7/app.py/1f0c", 5.0, "timeout"))
    did not acquire 'job' in 5.000 s: timeout
    """

    level: ClassVar[int] = logging.DEBUG
    line: ClassVar[str] = "did not acquire {name!r} in {waited:.3f} s: {why}"
    waited: float
    why: str
    """`timeout`, `unavailable` or `interrupted`."""


@dataclass(frozen=True, slots=True)
class LeaseEvent(LockEvent):
    """What the events of one lease have in common."""

    fence: int


@dataclass(frozen=True, slots=True)
class Renewed(LeaseEvent):
    """A lease was renewed, or extended by its holder.

    >>> print(Renewed("job", "web-3/7/app.py/1f0c", 42, 19.5, 29.7))
    renewed 'job' (fence 42) with 19.500 s to spare
    """

    level: ClassVar[int] = logging.DEBUG
    line: ClassVar[str] = "renewed {name!r} (fence {fence}) with {margin:.3f} s to spare"
    margin: float
    """Seconds that were left when the engine had confirmed it: how near it came to a loss."""
    remaining: float
    """Seconds that are left now."""


@dataclass(frozen=True, slots=True)
class RenewalFailed(LeaseEvent):
    """A renewal failed; it is tried again until the lease's deadline.

    >>> print(RenewalFailed("job", "web-3/7/app.py/1f0c", 42, 9.5, "connection refused"))
    could not renew 'job' (fence 42, 9.500 s left, trying again): connection refused
    """

    line: ClassVar[str] = (
        "could not renew {name!r} (fence {fence}, {remaining:.3f} s left, trying again): {why}"
    )
    remaining: float
    why: str


@dataclass(frozen=True, slots=True)
class Released(LeaseEvent):
    """A lease was released by its holder.

    >>> print(Released("job", "web-3/7/app.py/1f0c", 42, 1.5))
    released 'job' (fence 42) after 1.500 s
    """

    level: ClassVar[int] = logging.DEBUG
    line: ClassVar[str] = "released {name!r} (fence {fence}) after {held:.3f} s"
    held: float
    """For how many seconds it was held."""


@dataclass(frozen=True, slots=True)
class Lost(LeaseEvent):
    """A lease ended although its holder had not released it.

    >>> print(Lost("job", "web-3/7/app.py/1f0c", 42, "it was not renewed in time", 30.0))
    lost the lease on 'job' (fence 42): it was not renewed in time
    """

    line: ClassVar[str] = "lost the lease on {name!r} (fence {fence}): {why}"
    why: str
    held: float
    """For how many seconds it was held; 0 if the client had no hook when it was acquired."""


@dataclass(frozen=True, slots=True)
class Broken(LockEvent):
    """This client took a lock away from its holder: `break_lock`.

    >>> print(Broken("job", ""))
    broke 'job': its holders will find that they have lost it
    """

    line: ClassVar[str] = "broke {name!r}: its holders will find that they have lost it"


@dataclass(frozen=True, slots=True)
class AcquireFailed(Event):
    """The engine has been unreachable for a while; the acquire goes on trying.

    >>> print(AcquireFailed("job", 28.5, "connection refused"))
    could not acquire 'job' yet (trying for 28 s more): connection refused
    """

    line: ClassVar[str] = (
        "could not acquire {name!r} yet (trying for {remaining:.0f} s more): {why}"
    )
    name: str
    remaining: float
    why: str


@dataclass(frozen=True, slots=True)
class ReleaseFailed(Event):
    """A client was closed before the engine confirmed these releases: those locks, and places in
    queues, end with their ttl.

    >>> print(ReleaseFailed(("holdfast:job",), "connection refused"))
    the client was closed before 'holdfast:job' were released (connection refused); they will expire
    """

    keys: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        shown = ", ".join(map(repr, self.keys[:3])) + (", ..." if len(self.keys) > 3 else "")
        return f"the client was closed before {shown} were released ({self.why}); they will expire"


@dataclass(frozen=True, slots=True)
class Answered(Event):
    """The engine was asked something, and answered or not.

    >>> print(Answered(0.0004, 1, 0))
    1 requests were answered in 0.0004 s
    """

    level: ClassVar[int] = logging.DEBUG
    seconds: float
    requests: int
    failed: int
    """How many of them were not answered in time, or refused."""

    def __str__(self) -> str:
        failed = f", {self.failed} of them failed" if self.failed else ""
        return f"{self.requests} requests were answered in {self.seconds:.4f} s{failed}"


@dataclass(frozen=True, slots=True)
class NodeConnected(Event):
    """A node of a quorum answers for the first time.

    >>> print(NodeConnected("10.0.0.7:6379", 2))
    connected to 10.0.0.7:6379
    """

    level: ClassVar[int] = logging.DEBUG
    line: ClassVar[str] = "connected to {node}"
    node: str
    margin: int
    """How many nodes may fail before no lock can be acquired."""


@dataclass(frozen=True, slots=True)
class NodeFailed(Event):
    """A node stopped answering; the others go on without it, as far as they can.

    >>> print(NodeFailed("10.0.0.7:6379", "connection refused"))
    10.0.0.7:6379 does not answer: connection refused
    """

    line: ClassVar[str] = "{node} does not answer: {why}"
    node: str
    why: str
    margin: int | None = None
    """How many more nodes may fail before no lock can be acquired; None where that is unknown."""


@dataclass(frozen=True, slots=True)
class NodeRecovered(Event):
    """A node that had stopped answering answers again.

    >>> print(NodeRecovered("10.0.0.7:6379"))
    10.0.0.7:6379 answers again
    """

    level: ClassVar[int] = logging.INFO
    line: ClassVar[str] = "{node} answers again"
    node: str
    margin: int | None = None
    """How many nodes may fail before no lock can be acquired; None where that is unknown."""


@dataclass(frozen=True, slots=True)
class NodeQuarantined(Event):
    """A node has restarted, and may have forgotten leases: it has no vote until they are over.

    >>> print(NodeQuarantined("10.0.0.7:6379", 60.0))
    10.0.0.7:6379 has restarted; it has no vote for 60 s
    """

    line: ClassVar[str] = "{node} has restarted; it has no vote for {seconds:.0f} s"
    node: str
    seconds: float


@dataclass(frozen=True, slots=True)
class PollingOnly(Event):
    """Wake-ups from a server cannot reach this client, so its waiters poll.

    >>> print(PollingOnly("10.0.0.7:6379", "no right to SUBSCRIBE"))
    10.0.0.7:6379 cannot wake waiters (no right to SUBSCRIBE); they poll every `retry` seconds
    """

    line: ClassVar[str] = "{node} cannot wake waiters ({why}); they poll every `retry` seconds"
    node: str
    why: str


@dataclass(frozen=True, slots=True)
class InternalError(Event):
    """Something raised that must not: a user's callback, or holdfast itself.

    >>> print(InternalError("an on_lost callback", KeyError("job")))
    an on_lost callback raised KeyError('job')
    """

    level: ClassVar[int] = logging.ERROR
    line: ClassVar[str] = "{where} raised {error!r}"
    where: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class HookFailed(InternalError):
    """A hook raised. It is called again with the next event.

    >>> print(HookFailed("the hook <function measure>", KeyError("job")))
    the hook <function measure> raised KeyError('job')
    """


@dataclass(frozen=True, slots=True)
class EventsDropped(Event):
    """A hook was too slow: this many events before it did not reach it.

    >>> print(EventsDropped(120))
    120 events were dropped: the hook is too slow
    """

    line: ClassVar[str] = "{count} events were dropped: the hook is too slow"
    count: int
