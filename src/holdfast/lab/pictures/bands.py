"""Where promises were broken: bands across the lanes, and flags over them that say which."""

from collections.abc import Sequence
from dataclasses import replace

from holdfast.lab.history import Finding
from holdfast.lab.pictures.axis import Axis
from holdfast.lab.pictures.lanes import Lane
from holdfast.lab.pictures.rows import place, seen
from holdfast.lab.pictures.sheet import Band, Flag, Sheet
from holdfast.lab.pictures.words import clean


def bands_of(
    findings: Sequence[Finding], lanes: Sequence[Lane], axis: Axis, sheet: Sheet
) -> list[Band]:
    """A band for every finding; those of one rule and the same lanes that touch are one."""
    last: dict[object, int] = {}
    bands: list[Band] = []
    for finding in sorted(findings, key=lambda finding: finding.at):
        left, right = seen(axis.place(finding.at), axis.place(finding.until), sheet)
        band = Band(clean(finding.rule), left, right, _concerned(finding, lanes))
        same = last.get((band.rule, band.lanes))
        if same is not None and left - bands[same].right <= sheet.grain:
            bands[same] = replace(bands[same], right=max(right, bands[same].right))
            continue
        last[band.rule, band.lanes] = len(bands)
        bands.append(band)
    return bands


def _concerned(finding: Finding, lanes: Sequence[Lane]) -> tuple[int, ...]:
    """The numbers of the lanes that a finding is about: all, if it names none of them."""
    names = {clean(name) for name in finding.who}
    all_nodes = range(len(lanes))
    return tuple(n for n in all_nodes if lanes[n].name in names) or tuple(all_nodes)


def flag_rows(bands: Sequence[Band], sheet: Sheet) -> list[list[Flag]]:
    """The flags, as far as there is room: the bands show in any case."""
    rows: list[list[Flag]] = []
    for band in bands:
        place(rows, _ways(band, sheet), sheet.gap)
    return rows


def _ways(band: Band, sheet: Sheet) -> list[Flag]:
    """How to write what a band means, the best way first: over it, beside it, not at all."""
    ways = []
    for text in (f"✗ {band.rule}", sheet.shorten(f"✗ {band.rule}")):
        size = sheet.measure(text)
        if size + 2 * sheet.gap <= band.right - band.left:
            middle = (band.left + band.right - size) / 2
            ways.append(Flag(band, band.left, band.right, text, middle))
        if band.right + sheet.gap + size <= sheet.width:
            at = band.right + sheet.gap
            ways.append(Flag(band, band.left, at + size, text, at))
        if band.left - sheet.gap - size >= 0:
            at = band.left - sheet.gap - size
            ways.append(Flag(band, at, band.right, text, at))
    return [*ways, Flag(band, band.left, band.right, "", band.left)]
