"""What came of a soak: the checkers' findings, and numbers that show that it was worth it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from holdfast.lab.checkers import judge
from holdfast.lab.history import Finding, History, Kind, seconds

TOLERANCE = 2.0
"""How late a loss may be told on a busy machine, in seconds."""

BOUND = 6.0
"""How long a lock may stay free while it is wanted, once the faults are over, in seconds."""

SHOWN = 20
"""How many findings are shown."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The findings, the history that they are about, the faults that were tried, and how long."""

    findings: Sequence[Finding]
    history: History
    faults: Mapping[str, int]
    seconds: float

    @property
    def clean(self) -> bool:
        """Whether there was nothing to be found."""
        return not self.findings

    def summary(self) -> str:
        """For a person."""
        count = self._count
        faults = ", ".join(f"{number} {name}" for name, number in sorted(self.faults.items()))
        lines = [
            f"{count(Kind.GRANTED)} leases, {count(Kind.GRANTED) / self.seconds:.1f} per second",
            f"{count(Kind.LOST)} of them lost, {count(Kind.REFUSED)} refused",
            f"{count(Kind.WROTE)} writes accepted, {count(Kind.REJECTED)} stale ones rejected",
            f"{sum(self.faults.values())} faults: {faults}",
            f"{len(self.findings)} findings",
        ]
        lines += [f"  {finding.label}: {finding.text}" for finding in self.findings[:SHOWN]]
        if len(self.findings) > SHOWN:
            lines.append(f"  and {len(self.findings) - SHOWN} more")
        return "\n".join(lines)

    def _count(self, kind: Kind) -> int:
        return len(self.history.of(kind))


LEFT_BEHIND = "lock left behind"

Stored: TypeAlias = Mapping[str, Mapping[str, str]]
"""By node, the names that are held there, and by which hold."""


def left_behind(history: History, stored: Stored, over: float) -> list[Finding]:
    """Every lock that a node still stores.

    To be asked when every client has released or crashed, and every ttl has passed: at `over`.
    """
    clients = {hold.hold: hold.who for hold in history.holds()}
    findings: list[Finding] = []
    for node, held in stored.items():
        for name, hold in held.items():
            who = clients.get(hold, "an unknown client")
            text = f"{node} still stores {name} for {who} ({hold}) at {seconds(over)}"
            concerned = (node, who) if hold in clients else (node,)
            findings.append(Finding(LEFT_BEHIND, text, over, over, concerned))
    return findings


def reach(
    history: History,
    over: float,
    faults: Mapping[str, int],
    complaints: Sequence[str],
    stored: Stored,
) -> Verdict:
    """Judge a run that was over at this instant.

    `complaints` are what was wrong with the clients themselves, `stored` what they left behind.
    """
    findings = judge(history, tolerance=TOLERANCE, bound=BOUND, until=over)
    findings += left_behind(history, stored, over)
    findings += [Finding("client died", text, over, over) for text in complaints]
    findings += [
        Finding("soak without events", f"nothing was {kind}", 0.0, over)
        for kind in (Kind.GRANTED, Kind.EXTENDED, Kind.WROTE)
        if not history.of(kind)
    ]
    return Verdict(findings, history, faults, over)
