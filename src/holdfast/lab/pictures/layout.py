"""Where everything goes: lanes of seconds become rows of bars and tags on a sheet.

No two texts of one row overlap: what does not fit is shortened, moved to another row, or left out.
"""

from collections.abc import Sequence
from math import isfinite

from holdfast.lab.history import Finding, History
from holdfast.lab.pictures.axis import Axis
from holdfast.lab.pictures.bands import bands_of, flag_rows
from holdfast.lab.pictures.lanes import Lane, Role
from holdfast.lab.pictures.sheet import Board, Sheet
from holdfast.lab.pictures.story import lanes_of
from holdfast.lab.pictures.stripes import stripe_of

_SHORTEST = 0.001
"""Seconds that a picture shows at least."""
_BEYOND = 0.3
"""How much longer than its events a picture may be, to show when the last leases end."""
_MARGIN = 0.02
"""What is left free at either end, as a part of all."""


def lay_out(
    history: History,
    sheet: Sheet,
    findings: Sequence[Finding] = (),
    since: float | None = None,
    until: float | None = None,
) -> Board:
    """The picture of a history, or of what happened `since` and `until` these instants."""
    first, last = extent(history, findings)
    axis = Axis(
        first if since is None else since, last if until is None else until, sheet.width, sheet.tick
    )
    if axis.length <= 0:
        raise ValueError(f"the window is empty: since={axis.since}, until={axis.until}")
    shown = [finding for finding in findings if axis.shows(finding.at, finding.until)]
    lanes = _seen(lanes_of(history), axis)
    bands = bands_of(shown, lanes, axis, sheet)
    stripes, left_out = [], 0
    for number, lane in enumerate(lanes):
        broken = [(band.left, band.right) for band in bands if number in band.lanes]
        stripe, without = stripe_of(lane, axis, sheet, broken)
        stripes.append(stripe)
        left_out += without
    return Board(axis, stripes, bands, flag_rows(bands, sheet), shown, left_out)


def extent(history: History, findings: Sequence[Finding] = ()) -> tuple[float, float]:
    """The first and the last instant worth showing, and a little more."""
    instants = [event.at for event in history] + [finding.at for finding in findings]
    instants += [finding.until for finding in findings if isfinite(finding.until)]
    first, last = min(instants, default=0.0), max(instants, default=0.0)
    ends = (hold.ended for hold in history.holds() if hold.granted is not None)
    latest = max((end for end in ends if isfinite(end)), default=last)
    last = max(last, min(latest, last + _BEYOND * (last - first)), first + _SHORTEST)
    margin = _MARGIN * (last - first)
    return first - margin, last + margin


def _seen(lanes: list[Lane], axis: Axis) -> list[Lane]:
    """The lanes with anything in the window, and all nodes: a quorum is known by its size."""
    marks = [mark for lane in lanes for mark in lane.marks if axis.shows(mark.at, mark.at)]
    writers = {mark.sender for mark in marks if mark.sender}
    return [
        lane
        for lane in lanes
        if lane.role is Role.NODE
        or (lane.role is Role.CLIENT and lane.name in writers)
        or any(axis.shows(span.since, span.until) for span in lane.spans)
        or any(axis.shows(mark.at, mark.at) for mark in lane.marks)
    ]
