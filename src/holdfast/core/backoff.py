"""How long to wait before trying again: longer each time, and never in step with others."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import TypeAlias

Uniform: TypeAlias = Callable[[float, float], float]
"""A random number between two."""

FIRST = 0.02
LONGEST = 1.0


def pause_after(
    tries: int, uniform: Uniform, first: float = FIRST, longest: float = LONGEST
) -> float:
    """A pause, after `tries` earlier ones: from a range that doubles each time, up to `longest`."""
    ceiling = min(first * 2 ** min(tries, 10), longest)
    return uniform(ceiling / 2, ceiling)


def backoff(uniform: Uniform, first: float = FIRST, longest: float = LONGEST) -> Iterator[float]:
    """These pauses, one after the other."""
    return (pause_after(tries, uniform, first, longest) for tries in count())


def spread(pause: float, uniform: Uniform) -> float:
    """About that long, so that clients which poll at one interval drift apart."""
    return uniform(0.5 * pause, pause)
