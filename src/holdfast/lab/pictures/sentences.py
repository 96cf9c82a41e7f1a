"""What happened, in words: a sentence for each event."""

import re
from collections.abc import Callable, Mapping, Sequence
from math import inf, isfinite

from holdfast.lab.history import Event, Finding, Kind

Instant = Callable[[float], str]
"""How an instant is written."""


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
_NO_VOTE = "{who} withdraws its vote for {peer}{because}"
_ALL_HEALED = "the last fault is over{because}"


def describe(event: Event, instant: Instant, fences: Mapping[int, str]) -> str:
    """An event as a sentence without a full stop; `fences`: their labels."""
    sentence = _SENTENCES[event.kind]
    if is_vote(event):
        sentence = _VOTE if event.until > event.at else _NO_VOTE
    elif event.kind is Kind.HEALED and not event.peer:
        sentence = _ALL_HEALED
    return sentence.format(
        who=event.who or "note",
        name=event.name,
        peer=event.peer,
        fence="" if event.fence is None else f", fence {fences.get(event.fence, event.fence)}",
        until=f", until {instant(event.until)}" if isfinite(event.until) else "",
        because=f": {event.note}" if event.note else "",
    )


MOST_FINDINGS = 5
"""How many findings are written out."""


def describe_findings(
    findings: Sequence[Finding], instant: Instant, fences: Mapping[int, str]
) -> list[str]:
    """A sentence for each finding, or for the first few and how many more there are."""

    def labelled(found: re.Match[str]) -> str:
        return f"fence {fences.get(int(found[1]), found[1])}"

    sentences = [
        f"{finding.label}, {_span(finding, instant)}: "
        + re.sub(r"\bfence (\d+)", labelled, finding.text)
        for finding in findings[:MOST_FINDINGS]
    ]
    more = len(findings) - MOST_FINDINGS
    return [*sentences, f"and {more} more findings"] if more > 0 else sentences


def _span(finding: Finding, instant: Instant) -> str:
    if not finding.at < finding.until < inf:
        return instant(finding.at)
    return f"{instant(finding.at)} to {instant(finding.until)}"
