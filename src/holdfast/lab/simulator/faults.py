"""What goes wrong in a run, as data: so that it can be printed, left out, and played again."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class Mark(StrEnum):
    """What a fault may wait for."""

    START = "start"
    """The beginning of the run."""
    ASKED = "asked"
    GRANTED = "granted"
    EXTENDED = "extended"
    RELEASING = "releasing"
    RELEASED = "released"
    REFUSED = "refused"
    LOST = "lost"
    DEADLINE = "deadline"
    """The end of a lease, as it was when it was granted."""
    SENT_ACQUIRE = "sent Acquire"
    """A client has sent an acquire to the nodes; it has not arrived yet."""
    SENT_RELEASE = "sent Release"
    SENT_EXTEND = "sent Extend"
    SENT_RAISE = "sent Raise"
    SENT_REPAIR = "sent Repair"


@dataclass(frozen=True, slots=True)
class When:
    """An instant, relative to an event: `delay` seconds after the nth event of its kind."""

    mark: Mark
    nth: int = 1
    delay: float = 0.0
    who: int | None = None
    """Which client's event; None: any client's."""

    def __str__(self) -> str:
        if self.mark is Mark.START:
            return f"at {self.delay:.4f} s"
        whose = "" if self.who is None else f" of c{self.who}"
        return f"{self.delay:+.4f} s from {self.mark} #{self.nth}{whose}"


@dataclass(frozen=True, slots=True)
class Slow:
    """Most messages between a client and some nodes are late, a few by seconds."""

    when: When
    client: int
    nodes: tuple[int, ...]
    lasting: float


@dataclass(frozen=True, slots=True)
class Lose:
    """The next message from a client to a node, or back, is lost, and its connection with it."""

    when: When
    client: int
    node: int
    back: bool


@dataclass(frozen=True, slots=True)
class Reset:
    """Connections break. The client connects again; with `ghost`, what was in flight on the old
    one is still executed, in any order with what is sent on the new one."""

    when: When
    client: int
    nodes: tuple[int, ...]
    ghost: bool
    late: float = 0.0
    """How much later the ghost arrives."""


@dataclass(frozen=True, slots=True)
class Double:
    """Connections break, and the client's next attempt to connect arrives twice: for a while the
    nodes have two connections from it, and it receives what is sent on either."""

    when: When
    client: int
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cut:
    """Messages are held up: to the nodes, back from them, or both."""

    when: When
    client: int
    nodes: tuple[int, ...]
    to: bool
    back: bool
    lasting: float


@dataclass(frozen=True, slots=True)
class Freeze:
    """Nodes are paused, and go on where they were."""

    when: When
    nodes: tuple[int, ...]
    lasting: float


@dataclass(frozen=True, slots=True)
class Isolate:
    """A node is cut off from the other nodes, and not from its clients."""

    when: When
    nodes: tuple[int, ...]
    lasting: float


@dataclass(frozen=True, slots=True)
class Crash:
    """Nodes go down, and restart after a while, with or without their data."""

    when: When
    nodes: tuple[int, ...]
    lasting: float
    loses_data: bool


@dataclass(frozen=True, slots=True)
class Jump:
    """The clock of a node is set."""

    when: When
    node: int
    by: float


@dataclass(frozen=True, slots=True)
class Drift:
    """The clock of a node runs fast or slow."""

    when: When
    node: int
    rate: float


@dataclass(frozen=True, slots=True)
class Skew:
    """The clock of a client runs fast or slow; its wall clock is wrong by `calendar` seconds."""

    when: When
    client: int
    rate: float
    calendar: float


@dataclass(frozen=True, slots=True)
class Pause:
    """A client is paused, as by a long garbage collection; its clock runs on."""

    when: When
    client: int
    lasting: float
    timers_first: bool
    """What it does first when it resumes: run its timers, or read what has arrived."""


@dataclass(frozen=True, slots=True)
class Kill:
    """A client crashes. Nothing is cleaned up."""

    when: When
    client: int


@dataclass(frozen=True, slots=True)
class Close:
    """A client is closed, whatever it does."""

    when: When
    client: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """The oldest algorithm of a client is cancelled."""

    when: When
    client: int


Fault: TypeAlias = (
    Slow
    | Lose
    | Reset
    | Double
    | Cut
    | Freeze
    | Isolate
    | Crash
    | Jump
    | Drift
    | Skew
    | Pause
    | Kill
    | Close
    | Cancel
)

NAMES: dict[type[Fault], str] = {
    Slow: "slow network",
    Lose: "lost message",
    Reset: "broken connection",
    Double: "doubled connection",
    Freeze: "frozen node",
    Isolate: "isolated node",
    Jump: "clock jump",
    Drift: "clock drift",
    Skew: "client clock skew",
    Pause: "client pause",
    Kill: "client crash",
    Close: "client close",
    Cancel: "cancellation",
}
PARTITION, ONE_WAY = "partition", "one-wiring partition"
CRASH, AMNESIA = "node crash", "node crash with data loss"

ALL_NAMES = (*NAMES.values(), PARTITION, ONE_WAY, CRASH, AMNESIA)


def name_of(fault: Fault) -> str:
    """Its name in reports."""
    match fault:
        case Cut(to=to, back=back):
            return PARTITION if to and back else ONE_WAY
        case Crash(loses_data=loses_data):
            return AMNESIA if loses_data else CRASH
        case _:
            return NAMES[type(fault)]
