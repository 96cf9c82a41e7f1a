"""Many seeds, on as many cores as wanted, and what came of them."""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context

from holdfast.lab.simulator.draw import draw
from holdfast.lab.simulator.plan import Setup
from holdfast.lab.simulator.stage import Run, play

BLOCK = 100
"""How many seeds a process plays before it reports."""


@dataclass(slots=True)
class Tally:
    """What came of some seeds."""

    seeds: int = 0
    grants: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    """How many seeds broke which promise."""
    failed: list[int] = field(default_factory=list)
    """The seeds that broke one."""

    def add(self, run: Run) -> None:
        """Count a run in."""
        self.seeds += 1
        self.grants += run.grants
        self.faults.update(run.faults)
        self.broken.update({finding.rule for finding in run.findings})
        if run.findings:
            self.failed.append(run.plan.seed)

    def merge(self, other: "Tally") -> None:
        """Count another tally in."""
        self.seeds += other.seeds
        self.grants += other.grants
        self.faults.update(other.faults)
        self.broken.update(other.broken)
        self.failed = sorted(self.failed + other.failed)


def campaign(
    seeds: Sequence[int],
    setup: Setup,
    *,
    jobs: int = 1,
    report: Callable[[Tally], None] = lambda tally: None,
) -> Tally:
    """Play them all, in `jobs` processes. `report` gets the tally as it grows."""
    blocks = [seeds[first : first + BLOCK] for first in range(0, len(seeds), BLOCK)]
    total = Tally()
    if jobs == 1 or len(blocks) < 2:
        for block in blocks:
            total.merge(_play(setup, block))
            report(total)
        return total
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(partial(_play, setup), block) for block in blocks]):
            total.merge(done.result())
            report(total)
    return total


def _play(setup: Setup, seeds: Sequence[int]) -> Tally:
    tally = Tally()
    for seed in seeds:
        tally.add(play(draw(seed, setup)))
    return tally
