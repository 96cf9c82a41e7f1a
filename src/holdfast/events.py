"""What happened to a lock that nobody called for: frozen records, handed to one hook."""

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
    """A renewal could not be done; it is tried again until the lease's deadline."""

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
class ReleaseFailed:
    """A lock, or a place in its queue, that is not wanted any more could not be given back. It is
    tried again until the client is closed, and a lock ends with its ttl in any case."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"could not give {self.name!r} back, it ends with its ttl: {self.why}"


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
class InternalError:
    """Something raised that must not: a user's callback, or holdfast itself."""

    where: str
    error: BaseException

    def __str__(self) -> str:
        return f"{self.where} raised {self.error!r}"


Event = Lost | RenewalFailed | ReleaseFailed | NodeFailed | NodeRecovered | InternalError
