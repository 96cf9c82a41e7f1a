"""What nodes still store when nobody has or wants a lock any more."""

from collections.abc import Mapping
from typing import TypeAlias

from holdfast.lab.history import Finding, History
from holdfast.lab.hold import seconds

RULE = "nothing left behind"

Stored: TypeAlias = Mapping[str, Mapping[str, str]]
"""By node, the names that are held there, and by which hold."""


def left_behind(history: History, stored: Stored, until: float | None = None) -> list[Finding]:
    """Every lock that a node still stores.

    To be asked when every client has released or crashed, and every ttl has passed: at `until`,
    default: the last event.
    """
    over = history.end if until is None else until
    clients = {hold.hold: hold.who for hold in history.holds()}
    findings: list[Finding] = []
    for node, held in stored.items():
        for name, hold in held.items():
            who = clients.get(hold, "somebody unknown")
            text = f"{node} still stores {name} for {who} ({hold}) at {seconds(over)}"
            concerned = (node, who) if hold in clients else (node,)
            findings.append(Finding(RULE, text, over, over, concerned))
    return findings
