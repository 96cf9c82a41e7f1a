"""What happened, in words: a sentence for each event."""

import re
from collections.abc import Mapping, Sequence
from math import inf, isfinite

from holdfast.lab.history import Event, Finding, History, Kind, seconds

WRITES = (Kind.WROTE, Kind.REJECTED)


def is_vote(event: Event) -> bool:
    """Whether a node notes that it has voted for a client, `peer`, until an instant."""
    return event.kind is Kind.NOTED and bool(event.peer) and isfinite(event.until)


_SENTENCES = {
    Kind.ASKED: "{who} requests {name}{because}",
    Kind.GRANTED: "{who} acquires {name}{fence}{until}",
    Kind.REFUSED: "{who} does not acquire {name}{because}",
    Kind.EXTENDED: "{who} extends {name}{until}",
    Kind.RELEASING: "{who} begins to release {name}",
    Kind.RELEASED: "{who} has released {name}",
    Kind.LOST: "{who} has lost {name}{because}",
    Kind.WROTE: "{who} writes to {name}{fence}{because}",
    Kind.REJECTED: "{name} rejects a write by {who}{fence}{because}",
    Kind.PAUSED: "{who} is paused{because}",
    Kind.RESUMED: "{who} resumes{because}",
    Kind.CRASHED: "{who} crashes{because}",
    Kind.STARTED: "{who} starts{because}",
    Kind.CUT: "{who} no longer reaches {peer}{because}",
    Kind.HEALED: "{who} reaches {peer} again{because}",
    Kind.JUMPED: "the clock of {who} jumps{because}",
    Kind.NOTED: "{who}{because}",
}
_VOTE = "{who} votes for {peer}{fence}{until}{because}"
_ALL_HEALED = "the last fault is over{because}"


class Facts:
    """What is known of single events from the whole history."""

    def __init__(self, history: History) -> None:
        fences = sorted({event.fence for event in history if event.fence is not None})
        self.fences = {fence: f"#{place}" for place, fence in enumerate(fences, 1)}
        """A label for each fence, by their order: #1 < #2 < #3. The numbers themselves are long."""
        self._holds = {hold.hold: hold for hold in history.holds()}
        self._compared: dict[Event, str] = {}
        greatest: dict[str, int] = {}
        for write in history.of(*WRITES):
            if write.fence is not None:
                seen = greatest[write.name] = max(write.fence, greatest.get(write.name, 0))
                if seen > write.fence:
                    self._compared[write] = f"{self.fences[write.fence]} < {self.fences[seen]}"

    def fence(self, event: Event) -> str:
        """The label of its fence; of a write, beside one that the register has seen, if that is
        greater: #1 < #2."""
        if event.fence is None:
            return ""
        return self._compared.get(event, self.fences[event.fence])

    def is_stray(self, event: Event) -> bool:
        """Whether it is a write of a client that had no valid lease."""
        hold = self._holds.get(event.hold) if event.kind in WRITES else None
        return hold is not None and not any(a <= event.at <= b for a, b in hold.spans)


def describe(event: Event, facts: Facts) -> str:
    """An event as a sentence without a full stop."""
    sentence = _SENTENCES[event.kind]
    if is_vote(event):
        sentence = _VOTE
    elif event.kind is Kind.HEALED and not event.peer:
        sentence = _ALL_HEALED
    return sentence.format(
        who=event.who or "note",
        name=event.name,
        peer=event.peer,
        fence="" if event.fence is None else f", fence {facts.fence(event)}",
        until=f", until {seconds(event.until)}" if isfinite(event.until) else "",
        because=f": {event.note}" if event.note else "",
    ) + (" (its lease has expired)" if facts.is_stray(event) else "")


MOST_FINDINGS = 5
"""How many findings are written out."""


def describe_findings(findings: Sequence[Finding], fences: Mapping[int, str]) -> list[str]:
    """A sentence for each finding, or for the first few and how many more there are."""

    def labelled(found: re.Match[str]) -> str:
        return f"fence {fences.get(int(found[1]), found[1])}"

    sentences = [
        f"{finding.label}, {_span(finding)}: " + re.sub(r"\bfence (\d+)", labelled, finding.text)
        for finding in findings[:MOST_FINDINGS]
    ]
    more = len(findings) - MOST_FINDINGS
    return [*sentences, f"and {more} more findings"] if more > 0 else sentences


def _span(finding: Finding) -> str:
    if not finding.at < finding.until < inf:
        return seconds(finding.at)
    return f"{seconds(finding.at)} to {seconds(finding.until)}"
