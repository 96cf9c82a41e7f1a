"""Registers, which clients write to under a lock: with fences, and without."""

from collections.abc import Collection

from holdfast.lab.history import Event, Finding, History, Kind
from holdfast.lab.hold import Hold, seconds

STALE = "no stale write"
CORRUPT = "a register that judges nothing"


def stale_writes(history: History, unfenced: Collection[str] = ()) -> list[Finding]:
    """Every write that a register took with a lower fence than one before, or with none.

    The registers that are `unfenced` may take what they like.
    """
    findings: list[Finding] = []
    newest: dict[str, Event] = {}
    for write in history.of(Kind.WROTE):
        if write.name in unfenced:
            continue
        if write.fence is None:
            text = f"{write.name} took a write by {write.who} at {seconds(write.at)} with no fence"
            findings.append(Finding(STALE, text, write.at, write.at, (write.who,)))
        elif (finding := _behind(STALE, write, newest)) is not None:
            findings.append(finding)
    return findings


def corruption(history: History, registers: Collection[str]) -> list[Finding]:
    """Every write that spoilt one of these registers, which take whatever comes.

    Its writer did not have the lock while another had it, or it has a lower fence than one that
    was taken before.
    """
    findings: list[Finding] = []
    newest: dict[str, Event] = {}
    tenants = _Tenants(history)
    for write in history.of(Kind.WROTE):
        if write.name in registers:
            behind = _behind(CORRUPT, write, newest)
            finding = _intrusion(write, tenants) or behind
            findings += [] if finding is None else [finding]
    return findings


class _Tenants:
    """Who had which lock when."""

    def __init__(self, history: History) -> None:
        self._leases = history.leases()
        self._by_hold = {hold.hold: hold for hold in history.holds() if hold.granted is None}
        for leases in self._leases.values():
            for lease in leases:
                self._by_hold |= dict.fromkeys((lease.hold, *lease.nested), lease)

    def of(self, write: Event) -> Hold | None:
        """What was written under, as far as it is known."""
        return self._by_hold.get(write.hold)

    def other_than(self, own: Hold, at: float) -> Hold | None:
        """Whoever else had the same lock at that instant."""
        for lease in self._leases.get(own.name, ()):
            if lease is not own and any(since <= at < until for since, until in lease.spans):
                return lease
        return None


def _intrusion(write: Event, tenants: _Tenants) -> Finding | None:
    own = tenants.of(write)
    # The instant in which it ends is its own, too: what happened first within it is not known.
    if own is None or any(since <= write.at <= until for since, until in own.spans):
        return None
    other = tenants.other_than(own, write.at)
    if other is None:
        return None
    text = (
        f"{own} wrote {write.note!r} to {write.name} at {seconds(write.at)} "
        f"without having {own.name}, which {other} had"
    )
    return Finding(CORRUPT, text, write.at, write.at, (own.who, other.who))


def _behind(rule: str, write: Event, newest: dict[str, Event]) -> Finding | None:
    """A finding if a write is older than the newest of its register; else it is the newest."""
    before = newest.get(write.name)
    if write.fence is None:
        return None
    if before is None or before.fence is None or before.fence <= write.fence:
        newest[write.name] = write
        return None
    text = (
        f"{write.name} took a write by {write.who} with fence {write.fence} "
        f"at {seconds(write.at)}, after one by {before.who} with fence {before.fence} "
        f"at {seconds(before.at)}"
    )
    return Finding(rule, text, before.at, write.at, (before.who, write.who))
