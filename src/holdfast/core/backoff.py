"""How long to wait before trying again: longer each time, and never in step with others."""

from collections.abc import Callable, Iterator

FIRST = 0.02
LONGEST = 1.0


def backoff(
    uniform: Callable[[float, float], float], first: float = FIRST, longest: float = LONGEST
) -> Iterator[float]:
    """Pauses drawn from a range that doubles, up to a second."""
    ceiling = first
    while True:
        yield uniform(ceiling / 2, ceiling)
        ceiling = min(ceiling * 2, longest)


def spread(pause: float, uniform: Callable[[float, float], float]) -> float:
    """About that long, so that clients which poll at one interval drift apart."""
    return uniform(0.5 * pause, pause)
