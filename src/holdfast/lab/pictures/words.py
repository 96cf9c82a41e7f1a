"""What happened, in words: an event a sentence."""

import unicodedata
from collections.abc import Callable, Collection, Sequence
from math import inf, isfinite

from holdfast.lab.history import Event, Finding, Kind

Say = Callable[[float], str]
"""How an instant is told."""

_LONG = 6
"""Fences with more digits are told without those that they have in common."""


def clean(text: str) -> str:
    """A text from a history without what would harm a terminal or an XML document."""
    return "".join("·" if _is_harmful(character) else character for character in text)


def _is_harmful(character: str) -> bool:
    """Control characters, marks that turn the writing around, and half characters."""
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp", "Cn")


def short_fences(fences: Collection[int]) -> dict[int, str]:
    """What to write for each fence. Those that are readings of a clock begin alike, and are long.

    >>> short_fences([1760000000123456, 1760000000123999])
    {1760000000123456: '…456', 1760000000123999: '…999'}
    """
    texts = {fence: str(fence) for fence in fences}
    lengths = {len(text) for text in texts.values()}
    if len(lengths) != 1 or min(lengths) <= _LONG:
        return texts
    digits = enumerate(zip(*texts.values(), strict=True))
    differ = next((place for place, some in digits if len(set(some)) > 1), min(lengths))
    if differ < 3:
        return texts
    return {fence: f"…{text[min(differ, len(text) - 3) :]}" for fence, text in texts.items()}


def is_vote(event: Event) -> bool:
    """Whether a node notes that it has voted for a client, `peer`, until an instant."""
    return event.kind is Kind.NOTED and bool(event.peer) and isfinite(event.until)


_SENTENCES = {
    Kind.ASKED: "{who} asks for {name}{because}",
    Kind.GRANTED: "{who} has {name}{fence}{until}",
    Kind.REFUSED: "{who} does not get {name}{because}",
    Kind.EXTENDED: "{who} extends {name}{until}",
    Kind.RELEASING: "{who} begins to give {name} back",
    Kind.RELEASED: "{who} has given {name} back",
    Kind.LOST: "{who} has lost {name}{because}",
    Kind.WROTE: "{who} writes to {name}{fence}{because}",
    Kind.TURNED_AWAY: "{name} turns {who} away{fence}{because}",
    Kind.PAUSED: "{who} stands still{because}",
    Kind.RESUMED: "{who} goes on{because}",
    Kind.CRASHED: "{who} crashes{because}",
    Kind.STARTED: "{who} starts{because}",
    Kind.CUT: "{who} no longer reaches {peer}{because}",
    Kind.HEALED: "{who} reaches {peer} again{because}",
    Kind.JUMPED: "the clock of {who} jumps{because}",
    Kind.NOTED: "{who}{because}",
}
_VOTE = "{who} votes for {peer}{fence}{until}{because}"
_NO_VOTE = "{who} takes its vote for {peer} back{because}"
_ALL_HEALED = "the last fault is over{because}"


def tell(event: Event, say: Say) -> str:
    """An event as a sentence without a full stop."""
    sentence = _SENTENCES[event.kind]
    if is_vote(event):
        sentence = _VOTE if event.until > event.at else _NO_VOTE
    elif event.kind is Kind.HEALED and not event.peer:
        sentence = _ALL_HEALED
    return sentence.format(
        who=clean(event.who) or "note",
        name=clean(event.name),
        peer=clean(event.peer),
        fence="" if event.fence is None else f", fence {event.fence}",
        until=f", until {say(event.until)}" if isfinite(event.until) else "",
        because=f": {clean(event.note)}" if event.note else "",
    )


MOST_FINDINGS = 5
"""How many findings are told in words."""


def tell_findings(findings: Sequence[Finding], say: Say) -> list[str]:
    """A sentence for each finding, or for the first few and how many more there are."""
    told = [
        f"{clean(finding.rule)}, {_span(finding, say)}: {clean(finding.text)}"
        for finding in findings[:MOST_FINDINGS]
    ]
    more = len(findings) - MOST_FINDINGS
    return [*told, f"and {more} more findings"] if more > 0 else told


def _span(finding: Finding, say: Say) -> str:
    if not finding.at < finding.until < inf:
        return say(finding.at)
    return f"{say(finding.at)} to {say(finding.until)}"
