"""Measuring on a machine that others use too: interleaved rounds, paired ratios, quartiles.

In every round each contender has one batch, in a new order, so that whatever slows the machine down
slows all of them down. Ratios are taken within a round; then the median of the rounds is given, and
the quartiles around it. A promise is kept when the worse quartile keeps it.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import quantiles
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to measure."""

    rounds: int = 60
    batch: int = 100
    """Acquire-release pairs in one batch."""
    handoffs: int = 40
    window: float = 5.0
    """Seconds over which idle waiters, and contenders, are watched."""
    leases: int = 10_000
    lease_ttl: float = 30.0
    starts: int = 20
    """Programs started, of each kind."""
    tasks: tuple[int, ...] = (1, 100, 1000)
    contenders: tuple[int, ...] = (2, 16, 100)
    held: tuple[int, ...] = (1000, 10_000)
    hold: float = 12.0
    """Seconds over which leases on Redis are held."""
    queues: tuple[int, int, int] = (10, 50, 100)
    """How many wait for one lock that goes from hand to hand."""
    relays: int = 3
    """Rounds of that."""
    relay: float = 1.0
    """Seconds for which it goes from hand to hand, in each."""
    idle_rows: int = 1_000_000
    """In a table of leases."""
    cap: float = 2.0
    """Seconds after which a peer that hangs is not waited for any more."""


QUICK = Effort(
    rounds=3,
    batch=5,
    handoffs=2,
    window=0.3,
    leases=200,
    lease_ttl=3.0,
    starts=2,
    tasks=(1, 5, 10),
    contenders=(2, 3, 4),
    held=(10, 100),
    hold=0.5,
    queues=(2, 2, 3),
    relays=1,
    relay=0.1,
    idle_rows=1000,
    cap=0.2,
)
"""Just enough to see that everything runs."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A median and the quartiles around it."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """The spread of these values."""
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        return cls(*quantiles(values, n=4, method="inclusive"))


@dataclass(frozen=True, slots=True)
class Row:
    """One contender in one case: its figure, and how it compares to the reference."""

    label: str
    unit: str
    spread: Spread
    ratio: Spread | None = None
    """To the reference; None for the reference itself, and where there is none."""
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """A promise, and what was measured."""

    text: str
    measured: Spread | None
    """None: it could not be measured here."""
    bound: float
    unit: str = "times"
    more: bool = False
    """Whether more is better: `bound` is then the least, otherwise the most."""
    other: str = ""
    """The label that holdfast is compared with, if the figure is a ratio to it."""

    @property
    def worse(self) -> float | None:
        """The quartile that decides: the lower one if more is better, otherwise the upper one."""
        if self.measured is None:
            return None
        return self.measured.low if self.more else self.measured.high

    @property
    def met(self) -> bool | None:
        """Whether the worse quartile keeps the promise; None: it could not be measured here."""
        if self.worse is None:
            return None
        return self.worse >= self.bound if self.more else self.worse <= self.bound


@dataclass(frozen=True, slots=True)
class Case:
    """One question, answered."""

    name: str
    title: str
    what: str
    reference: str
    """The label of the row that ratios are taken to; '' if there is none."""
    rows: tuple[Row, ...]
    targets: tuple[Target, ...] = ()


Values = dict[str, list[float]]


def interleave(batches: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Run every batch once a round, in a new order each time; what each gave."""
    results: dict[str, list[T]] = {label: [] for label in batches}
    order = list(batches)
    shuffle = random.Random(1).shuffle
    for batch in batches.values():
        batch()  # the first one of each warms up
    for _ in range(rounds):
        shuffle(order)
        for label in order:
            results[label].append(batches[label]())
    return results


def figures(results: Mapping[str, Sequence[T]], figure: Callable[[T], float]) -> Values:
    """A figure of every result."""
    return {label: list(map(figure, measured)) for label, measured in results.items()}


Waits = list[list[float]]
"""How long each acquire of each contender took."""


def percentile(waits: Waits, percent: int) -> float:
    """Of all acquires together."""
    everything = [wait for each in waits for wait in each]
    return quantiles(everything, n=100, method="inclusive")[percent - 1]


FEWEST, ATTEMPTS = 2, 100


def worth_counting(contest: Callable[[], T], sections: Callable[[T], int]) -> T:
    """Hold a contest; and hold it again if almost no contender got in: the machine had other
    things to do."""
    for _ in range(ATTEMPTS):
        result = contest()
        if sections(result) >= FEWEST:
            return result
    raise RuntimeError(f"in {ATTEMPTS} contests almost no contender got the lock")


def seconds_each(action: Callable[[], object], times: int) -> float:
    """Seconds that one call takes, on average over one batch."""
    began = perf_counter()
    for _ in range(times):
        action()
    return (perf_counter() - began) / times


def rows(values: Values, unit: str, scale: float, reference: str) -> tuple[Row, ...]:
    """A row for each, with ratios to the reference taken within each round."""
    return tuple(
        Row(
            label,
            unit,
            Spread.of([value * scale for value in measured]),
            ratio(values, label, reference),
            ours="holdfast" in label,
        )
        for label, measured in values.items()
    )


def ratio(values: Values, label: str, reference: str) -> Spread | None:
    """How many times the reference's value is this one's, paired by round."""
    if label == reference or not reference:
        return None
    pairs = zip(values[label], values[reference], strict=True)
    return Spread.of([value / base for value, base in pairs if base > 0] or [float("nan")])


def at_most(values: Values, label: str, reference: str, most: float) -> Target:
    """A promise: no more than `most` times the reference, if that is there."""
    times = ratio(values, label, reference) if reference in values else None
    text = f"{label}: at most {most:g} times {reference}"
    return Target(text, times, most, other=reference)


def at_least(values: Values, label: str, reference: str, least: float) -> Target:
    """A promise: at least `least` times the reference, if that is there."""
    times = ratio(values, label, reference) if reference in values else None
    text = f"{label}: at least {least:g} times {reference}"
    return Target(text, times, least, more=True, other=reference)


def faster(values: Values, label: str, peer: str, least: float = 1.0) -> Target:
    """A promise: it takes the peer at least `least` times as long, if that is there."""
    times = ratio(values, peer, label) if peer in values else None
    text = f"{label}: at least {least:g} times as fast as {peer}"
    return Target(text, times, least, more=True, other=peer)


def figure_at_most(text: str, measured: Sequence[float], most: float, unit: str) -> Target:
    """A promise about a figure of holdfast alone."""
    return Target(text, Spread.of(measured), most, unit)
