"""What clients ask of a lock, and what they are told."""

from dataclasses import dataclass
from enum import Enum
from math import inf


class Model(Enum):
    """What kind of lock it is."""

    LOCK = "lock"
    REENTRANT = "reentrant"
    FENCED = "fenced"


class Action(Enum):
    """What a client asks for."""

    ACQUIRE = "acquire"
    RELEASE = "release"


class Outcome(Enum):
    """What it is told."""

    OK = "ok"
    NO = "no"
    """Somebody has it; or, to a release: it is not yours."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of a client."""

    who: str
    """The owner, as the lock knows it: a client, or one acquisition of a client.

    Whoever hears nothing should go on as another: else what it did not hear of can explain much of
    what comes later, and it can take long to find out that it does not.
    """
    action: Action
    outcome: Outcome
    invoked: float
    responded: float = inf
    """`inf` if, and only if, the outcome is unknown."""
    name: str = ""
    fence: int | None = None
    expires: float = inf
    """Of an acquire: since when the lock may be free again, unreleased."""

    def __post_init__(self) -> None:
        if not self.who:
            raise ValueError(f"somebody must have called: {self}")
        if self.responded < self.invoked:
            raise ValueError(f"it responded before it was invoked: {self}")
        if (self.responded == inf) != (self.outcome is Outcome.UNKNOWN):
            raise ValueError(f"it responded if its outcome is known, and only then: {self}")
