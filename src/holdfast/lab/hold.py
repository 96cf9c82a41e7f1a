"""What is known of one acquisition of a lock."""

from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias

Span: TypeAlias = tuple[float, float]
"""From one instant to another, which is no part of it."""


@dataclass(slots=True)
class Hold:
    """One acquisition, from being asked for to its end."""

    who: str
    name: str
    hold: str
    asked: float
    granted: float | None = None
    fence: int | None = None
    deadlines: list[tuple[float, float]] = field(default_factory=list)
    """Since when which deadline was believed in."""
    releasing: float | None = None
    released: float | None = None
    lost: float | None = None
    refused: float | None = None
    nested: list[str] = field(default_factory=list)
    """The ids of the holds that were nested in this one, once they are one lease."""

    def __str__(self) -> str:
        return self.who if self.fence is None else f"{self.who} (fence {self.fence})"

    @property
    def answered(self) -> float:
        """When its client knew whether it had got it; `inf`: never."""
        answer = earlier(self.granted, self.refused)
        return inf if answer is None else answer

    @property
    def mark_released(self) -> float | None:
        """When its holder gave it up by its own will."""
        return earlier(self.releasing, self.released)

    @property
    def given_up(self) -> float:
        """When its holder let go of it or was told that it has it no more; `inf`: neither."""
        end = earlier(earlier(self.mark_released, self.lost), self.refused)
        return inf if end is None else end

    @property
    def ended(self) -> float:
        """When the client no longer believed that it had the lock: released, told, or too late."""
        deadline = self.deadlines[-1][1] if self.deadlines else inf
        return min(deadline, self.given_up)

    @property
    def window(self) -> tuple[float, float]:
        """When its holder was entitled to believe that it had the lock."""
        if self.granted is None:
            raise ValueError(f"{self.hold} was never granted")
        return self.granted, self.ended

    @property
    def terms(self) -> list[tuple[float, float, float]]:
        """Each deadline: since when it was believed in, itself, and when it was renewed."""
        renewals = [since for since, _ in self.deadlines[1:]]
        pairs = zip(self.deadlines, [*renewals, inf], strict=False)  # one too many if there is none
        return [(since, deadline, renewed) for (since, deadline), renewed in pairs]

    @property
    def spans(self) -> list[Span]:
        """The window without its holes: when its holder did believe, by its own deadlines.

        There is a hole where it was extended after its time had run out. What was granted when its
        time had run out already has no span at all. A crash ends none: a lease outlives its holder.
        """
        found: list[Span] = []
        for since, deadline, renewed in self.terms:
            end = min(deadline, renewed, self.given_up)
            if since >= end:
                continue
            if found and found[-1][1] == since:
                since = found.pop()[0]
            found.append((since, end))
        return found

    def take_in(self, inner: "Hold") -> None:
        """Make one of this and a hold nested in it: given up when both are, lost when one is."""
        self.nested.append(inner.hold)
        self.deadlines = sorted([*self.deadlines, *inner.deadlines], key=lambda since: since[0])
        self.releasing = later(self.mark_released, inner.mark_released)
        self.released = later(self.released, inner.released)
        self.lost = earlier(self.lost, inner.lost)


def seconds(instant: float) -> str:
    """An instant, or how long something took, for people."""
    return f"{instant:.3f} s"


def earlier(one: float | None, other: float | None) -> float | None:
    """The earlier of two instants, if there is any."""
    return min((each for each in (one, other) if each is not None), default=None)


def later(one: float | None, other: float | None) -> float | None:
    """The later of two instants, if there are both."""
    return None if one is None or other is None else max(one, other)
