"""Pictures of histories: everything is in them, nothing overlaps, and they can be read anywhere."""

import re
from collections.abc import Callable
from random import Random
from typing import TypeAlias
from xml.etree import ElementTree

import pytest

from holdfast.lab.history import Event, Finding, History, Kind
from holdfast.lab.pictures import as_svg, as_text
from holdfast.lab.pictures.lanes import lanes_of
from holdfast.lab.pictures.sentences import Facts
from holdfast.lab.pictures.text import Steps, Terminal
from tests.lab.picture_samples import amnesia, crowd, life, partition, pause, tiny

SVG = "{http://www.w3.org/2000/svg}"
Sample: TypeAlias = Callable[[], tuple[History, list[Finding]]]
SAMPLES: dict[str, Sample] = {
    "tiny": lambda: (tiny(), []),
    "pause": pause,
    "amnesia": amnesia,
    "partition": partition,
    "crowd": crowd,
    "nothing": lambda: (History(), []),
}


def noise(seed: int) -> tuple[History, list[Finding]]:
    """Anything that may happen, at any time."""
    random = Random(seed)
    events = [event for n in range(9) for event in life(f"c{n % 3}", n, n / 9, n / 9 + 0.01, n + 1)]
    for _ in range(120):
        who, peer = random.sample(["c0", "c1", "c2", "n1", "n2", "n3", "n10", ""], 2)
        kind, at = random.choice(list(Kind)), random.uniform(0, 12)
        until = at + random.choice([0, 0.5, 3, float("inf")])
        note = "a rather long note that goes on and on"[: random.randrange(40)]
        events.append(Event(at, who, kind, "job", f"h{random.randrange(9)}", 5, until, peer, note))
    whose = [("c0",), ("c1", "n2"), ()]
    starts = [random.uniform(0, 12) for _ in range(12)]
    found = [
        Finding(f"rule {n % 4}", "x", at, at + n / 4, whose[n % 3]) for n, at in enumerate(starts)
    ]
    return History(events), found


def texts(svg: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg).iter(f"{SVG}text"))


def words(svg: str) -> str:
    return "\n".join(text.text or "" for text in texts(svg))


@pytest.mark.parametrize("name", SAMPLES)
def test_a_picture_is_well_formed_and_says_what_it_is(name: str) -> None:
    history, findings = SAMPLES[name]()
    root = ElementTree.fromstring(as_svg(history, title="A & B", findings=findings, caption="So."))
    assert root.tag == f"{SVG}svg"
    assert root.findtext(f"{SVG}title") == "A & B"
    for finding in findings[:1]:
        assert finding.text in (root.findtext(f"{SVG}desc") or "")
    assert "So." in words(ElementTree.tostring(root, encoding="unicode"))


@pytest.mark.parametrize("sample", [pause, amnesia, partition])
def test_every_lane_hold_and_finding_is_in_both_pictures(sample: Sample) -> None:
    history, findings = sample()
    svg = words(as_svg(history, title="", findings=findings))
    text = as_text(history, findings=findings)
    for lane in (lane for lane in lanes_of(history) if lane.name):
        assert lane.name in svg.splitlines()
        assert re.search(f"^{lane.name} ", text, re.MULTILINE)
    labels = Facts(history).fences
    assert labels
    for label in labels.values():
        assert f" {label} " in svg.splitlines()
        assert f" {label} " in text
    for finding in findings:
        assert f"✗ {finding.label}" in svg
        assert f"{finding.label}, " in text


def boxes(svg: str, class_: str) -> list[tuple[float, float]]:
    """From where to where the boxes of these classes are."""
    rects = ElementTree.fromstring(svg).iter(f"{SVG}rect")
    places = ((float(r.get("x", 0)), float(r.get("width", 0)), r.get("class")) for r in rects)
    return [(x, x + width) for x, width, its_class in places if its_class == class_]


def test_two_holders_at_a_time_are_red_in_svg() -> None:
    history, findings = amnesia()
    svg = as_svg(history, title="", findings=findings)
    flag, a, b = [box for box in boxes(svg, "red broken") if box[1] - box[0] > 100]
    assert flag == a == b


@pytest.mark.parametrize("width", [40, 100])
@pytest.mark.parametrize("name", [*SAMPLES, *range(20)])
def test_the_lanes_of_a_terminal_are_no_wider_than_it(name: str | int, width: int) -> None:
    history, findings = noise(name) if isinstance(name, int) else SAMPLES[name]()
    picture = as_text(history, findings=findings, width=width)
    chart, _, _ = picture.rpartition("┴")
    assert max(map(len, chart.splitlines())) <= width


def test_names_are_escaped() -> None:
    name = "<b>&\"'"
    history = History(
        [Event(0, name, Kind.ASKED, name, "a"), Event(1, name, Kind.NOTED, note=name)]
    )
    finding = Finding(name, name, 0, 1, (name,))
    svg = as_svg(history, title=name, findings=[finding], caption=name)
    assert name in words(svg).splitlines()


def test_a_picture_is_the_same_each_time() -> None:
    for sample in (pause, amnesia, partition, crowd):
        pictures = set()
        for _ in range(2):
            history, findings = sample()
            pictures.add(as_svg(history, title="x", findings=findings))
            pictures.add(as_text(history, findings=findings))
        assert len(pictures) == 2


def test_a_tiny_history_in_the_terminal() -> None:
    assert as_text(tiny(), width=60) == (
        "A   ────────────────█████████████████ #1 █████████████████\n"
        "   ──────┴──────────┴──────────┴──────────┴──────────┴──────\n"
        "s        0.002      0.004      0.006      0.008      0.010\n"
        "\n"
        "── waits   ██ holds the lock\n"
    )


def test_a_pause_in_the_terminal() -> None:
    history, findings = pause()
    assert as_text(history, findings=findings, width=80) == (
        "                                                  ✗ no write is undone ▼▼▼▼▼▼▼\n"
        "A        ███ #1 ███»█████▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▞▞▞▞ lease expired ▞▞▞▞▞\n"
        "                         ‖ paused                                      ◆ lost\n"
        "B               ───────────────────────────────█████████████ #2 ██████████████─\n"
        "\n"
        "fenced          ● A #1: a=1                           ● B #2: a=2\n"
        "                                                   A #1 < #2: rejected ⊘\n"
        "plain           ● A #1: a=1                           ● B #2: a=2\n"
        "                                               A #1 < #2: a=1, expired ●\n"
        "        ──────────────────┴──────────────────┴──────────────────┴───────────────\n"
        "s                         2                  4                  6\n"
        "\n"
        "── waits   ██ holds the lock   ▞▞ lease expired, not noticed yet   ░▒ paused\n"
        "◆ lost   ● write accepted   ⊘ write rejected   » extended   ▼╬ went wrong\n"
        "\n"
        "✗ no write is undone, 6.700 s to 7.500 s: plain took A's write, with fence #1,\n"
        "  after B's, with fence #2: B's work is gone\n"
    )


def test_a_pause_in_words() -> None:
    steps = Steps(Terminal(width=80, colour=False))
    told = "\n".join(steps.line(event) for event in pause()[0])
    assert (
        "  6.700 s  A writes to plain, fence #1 < #2: a=1 (its lease has expired)\n"
        "  6.700 s  fenced rejects a write by A, fence #1 < #2 (its lease has expired)\n"
        "  6.750 s  A has lost job\n"
    ) in told


def test_two_holders_at_a_time_in_the_terminal() -> None:
    history, findings = amnesia()
    chart = as_text(history, findings=findings, width=80)
    assert chart.startswith(
        "                                    ▼▼▼▼▼▼▼▼▼▼▼▼▼▼▼▼▼▼▼▼▼ ✗ two holders at once\n"
        "A     ─████████████ #1 █████████████╬╬╬╬╬╬╬╬╬╬╬╬╬╬╬╬╬╬╬╬╬─\n"
        "B            ───────────────────────╬╬╬╬╬╬╬╬╬╬╬╬╬╬╬╬╬╬╬╬╬████████ #2 █████████─\n"
        "\n"
        "n1    ▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄ A ▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄\n"
        "n2    ▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄ A ▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄\n"
        "n3    ▄▄▄▄▄▄ A ▄▄▄▄▄▄╌╌╌╌╌╌╌        ▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄ B ▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄\n"
        "                     † crashed\n"
        "                            ▶ started: empty\n"
    )


def test_colours_only_where_they_are_wanted() -> None:
    history, findings = amnesia()
    plain = as_text(history, findings=findings)
    coloured = as_text(history, findings=findings, colour=True)
    assert "\x1b" not in plain
    assert "\x1b[31m╬" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_what_is_done_without_a_valid_lease_is_red() -> None:
    history, findings = pause()
    coloured = as_text(history, findings=findings, width=80, colour=True)
    assert "\x1b[97;41m lease expired \x1b[0m" in coloured
    assert "\x1b[31mA #1 < #2: rejected\x1b[0m" in coloured
    assert "\x1b[31mA #1 < #2: a=1, expired\x1b[0m" in coloured
    assert "\x1b[31mB" not in coloured


def test_what_is_too_many_is_counted() -> None:
    history, findings = crowd()
    svg = as_svg(history, title="", findings=findings)
    assert re.search(r"\d+ more marks found no room", svg)
    assert "and 55 more findings" in svg


def test_marks_that_find_no_room_are_counted() -> None:
    kinds = (Kind.LOST, Kind.CRASHED, Kind.PAUSED, Kind.JUMPED, Kind.NOTED)
    history = History([Event(1.0, "A", Kind.ASKED), *(Event(1.0, "A", kind) for kind in kinds)])
    assert "2 more marks found no room." in as_svg(history, title="")
    assert "2 more marks found no room." in as_text(history)
