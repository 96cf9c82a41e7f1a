"""Many seeds, one after the other, and what came of them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.lab.simulator.draw import draw
from holdfast.lab.simulator.plan import Setup
from holdfast.lab.simulator.stage import Run, play


@dataclass(slots=True)
class Tally:
    """What came of some seeds."""

    seeds: int = 0
    grants: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    """How many seeds broke which promise."""
    first: Run | None = None
    """The first run that broke one."""

    def add(self, run: Run) -> None:
        """Count a run in."""
        self.seeds += 1
        self.grants += run.grants
        self.faults.update(run.faults)
        self.broken.update({finding.rule for finding in run.findings})
        if run.findings and self.first is None:
            self.first = run


def campaign(seeds: Iterable[int], setup: Setup, *, until_broken: bool = False) -> Tally:
    """Play them all; or only until a promise is broken."""
    tally = Tally()
    for seed in seeds:
        tally.add(play(draw(seed, setup)))
        if until_broken and tally.first is not None:
            break
    return tally
