"""Events of a lock: frozen records, passed to one hook."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lost:
    """A lease ended although its holder had not released it."""

    name: str
    fence: int
    why: str

    def __str__(self) -> str:
        return f"lost the lease on {self.name!r} (fence {self.fence}): {self.why}"


@dataclass(frozen=True, slots=True)
class RenewalFailed:
    """A renewal failed; it is tried again until the lease's deadline."""

    name: str
    fence: int
    remaining: float
    why: str

    def __str__(self) -> str:
        return (
            f"could not renew {self.name!r} (fence {self.fence}, {self.remaining:.3f} s left, "
            f"trying again): {self.why}"
        )


@dataclass(frozen=True, slots=True)
class AcquireFailed:
    """The engine has been unreachable for a while; the acquire goes on trying."""

    name: str
    remaining: float
    why: str

    def __str__(self) -> str:
        return (
            f"could not acquire {self.name!r} yet (trying for {self.remaining:.0f} s more): "
            f"{self.why}"
        )


@dataclass(frozen=True, slots=True)
class ReleaseFailed:
    """A client was closed before the engine confirmed these releases: those locks, and places in
    queues, end with their ttl."""

    keys: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        shown = ", ".join(map(repr, self.keys[:3])) + (", ..." if len(self.keys) > 3 else "")
        return f"the client was closed before {shown} were released ({self.why}); they will expire"


@dataclass(frozen=True, slots=True)
class NodeFailed:
    """A node stopped answering; the others go on without it, as far as they can."""

    node: str
    why: str

    def __str__(self) -> str:
        return f"{self.node} does not answer: {self.why}"


@dataclass(frozen=True, slots=True)
class NodeRecovered:
    """A node that had stopped answering answers again."""

    node: str

    def __str__(self) -> str:
        return f"{self.node} answers again"


@dataclass(frozen=True, slots=True)
class PollingOnly:
    """Wake-ups from a server cannot reach this client, so its waiters poll."""

    node: str
    why: str

    def __str__(self) -> str:
        return f"{self.node} cannot wake waiters ({self.why}); they poll every `retry` seconds"


@dataclass(frozen=True, slots=True)
class InternalError:
    """Something raised that must not: a user's callback, or holdfast itself."""

    where: str
    error: BaseException

    def __str__(self) -> str:
        return f"{self.where} raised {self.error!r}"


Event = (
    Lost
    | RenewalFailed
    | AcquireFailed
    | ReleaseFailed
    | NodeFailed
    | NodeRecovered
    | PollingOnly
    | InternalError
)
