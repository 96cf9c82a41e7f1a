"""What there is to draw, in seconds: a lane for each client, register and node.

A *span* lasts (waiting, holding, a pause), a *mark* is an instant (lost, wrote, crashed). Both
carry what could be written beside them, from the longest text to the shortest: whoever draws takes
the first that fits. A client's *tint* is the number of its colour, wherever it shows.
"""

from dataclasses import dataclass, field
from enum import Enum


class Role(Enum):
    """Whose lane it is. In this order from top to bottom."""

    RUN = "run"
    CLIENT = "clients"
    REGISTER = "registers"
    NODE = "nodes"


class Look(Enum):
    """What a span shows; the value explains it in a legend."""

    WAITING = "waits"
    HOLDING = "holds, under that fence"
    VOTE = "has the vote"
    PAUSED = "paused"
    DOWN = "down"
    CUT = "cut off"


class Symbol(Enum):
    """What a mark shows; the value explains it in a legend."""

    REFUSED = "did not get it"
    LOST = "lost"
    WROTE = "write taken"
    TURNED_AWAY = "write turned away"
    PAUSED = "paused"
    CRASHED = "crashed"
    STARTED = "started"
    HEALED = "last fault over"
    JUMPED = "clock jumped"
    NOTED = "note"


@dataclass(frozen=True, slots=True)
class Span:
    """Something that lasts."""

    look: Look
    since: float
    until: float
    tint: int | None = None
    labels: tuple[str, ...] = ()
    group: str = ""
    """Spans of one group stand in one row."""
    notches: tuple[float, ...] = ()
    """When it was extended."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at an instant."""

    symbol: Symbol
    at: float
    labels: tuple[str, ...] = ()
    tint: int | None = None
    sender: str = ""
    """The client whose write it was."""


@dataclass(slots=True)
class Lane:
    """All that is to be drawn of one client, register or node."""

    name: str
    role: Role
    tint: int | None = None
    spans: list[Span] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
