"""The soak: that it finds nothing, and that it would."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.lab.history import Event, History, Kind
from holdfast.lab.servers.process import HOST
from tests.equipment.soak.__main__ import main
from tests.equipment.soak.campaign import ALONE, CARDS, Campaign
from tests.equipment.soak.client import Role
from tests.equipment.soak.ground import ClientProcess, Ground
from tests.equipment.soak.journal import Journal, as_line, from_line
from tests.equipment.soak.register import Pen, Registers, Write
from tests.equipment.soak.verdict import Verdict, left_behind, reach
from tests.patience import wait_for


def test_what_is_still_stored_was_left_behind() -> None:
    run = History(lease("A", 7, 1, 5))
    found = left_behind(run, {"n1": {}, "n2": {"job": "A"}, "n3": {"job": "?"}}, 9)
    assert [finding.text for finding in found] == [
        "n2 still stores job for A (A) at 9.000 s",
        "n3 still stores job for an unknown client (?) at 9.000 s",
    ]
    assert [finding.who for finding in found] == [("n2", "A"), ("n3",)]
    assert left_behind(History(), {"n1": {}}, 9) == []


@pytest.mark.full
@pytest.mark.timeout(180)
def test_a_short_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--seconds", "20", "--history", str(tmp_path / "history.jsonl")])
    output = capsys.readouterr().out
    assert code == 0, output
    assert "0 findings" in output
    history = map(from_line, (tmp_path / "history.jsonl").read_text().splitlines())
    assert {Kind.GRANTED, Kind.EXTENDED, Kind.WROTE} <= {event.kind for event in history}


def test_events_survive_as_lines() -> None:
    for event in (
        Event(0.5, "A", Kind.GRANTED, "orders", "A1", fence=0, until=3.25),
        Event(1, "A", Kind.CUT, peer="n1", note="„hush“"),
        Event(2, "", Kind.HEALED),
    ):
        assert from_line(as_line(event)) == event


def test_too_short_a_soak_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--seconds", "5"])
    assert "--seconds: must be at least 20, got 5" in capsys.readouterr().err


def test_a_missing_program_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main([]) == 69
    assert "pip install 'holdfast[lab]'" in capsys.readouterr().err


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def registers(journal: Journal) -> Iterator[Registers]:
    with Registers(journal) as registers:
        yield registers


def test_a_register_takes_what_is_not_older(journal: Journal, registers: Registers) -> None:
    pen = Pen(registers.port)
    fences = [("a", 5), ("a", 4), ("a", 5), ("b", 1), ("a", 6), ("a", 5)]
    taken = [pen.write(Write("c1", "h", register, fence, "v")) for register, fence in fences]
    assert taken == [True, False, True, True, True, False]
    output = [(event.name, event.fence, event.kind is Kind.WROTE) for event in journal.events()]
    assert output == [(*fence, each) for fence, each in zip(fences, taken, strict=True)]
    pen.close()


def test_a_writer_that_dies_in_mid_line_harms_no_other(
    journal: Journal, registers: Registers
) -> None:
    with socket.create_connection((HOST, registers.port)) as dying:
        dying.sendall(b'{"who": "c1", "ho')
    pen = Pen(registers.port)
    assert pen.write(Write("c2", "h", "a", 1, "v"))
    pen.close()


def test_the_latest_writer_is_the_likely_holder(journal: Journal) -> None:
    assert journal.latest(Kind.WROTE) is None
    for who in ("c1", "c2"):
        journal.note(who, Kind.WROTE)
    journal.note("c3", Kind.REJECTED)
    latest = journal.latest(Kind.WROTE)
    assert latest is not None
    assert latest.who == "c2"


def test_every_fault_comes_once_before_any_comes_again(tmp_path: Path) -> None:
    campaign = Campaign(Ground(tmp_path), seed=1)
    rounds = [list(campaign._deal()) for _ in range(200)]
    assert all(hand == [ALONE] for hand in rounds if ALONE in hand)
    dealt = [card for hand in rounds for card in hand]
    for first in range(0, 5 * len(CARDS), len(CARDS)):
        assert sorted(dealt[first : first + len(CARDS)]) == sorted(CARDS)


def test_a_client_that_was_killed_in_mid_line_has_told_the_lines_before(tmp_path: Path) -> None:
    role = Role("c1", False, "memory://", 1.0, [], 0, str(tmp_path), "", 0.0)
    event = Event(1.0, "c1", Kind.ASKED, hold="h")
    (tmp_path / "1.jsonl").write_text(as_line(event) + '{"at": 2.0, "wh')
    assert ClientProcess(role, tmp_path).events() == [event]


def lease(who: str, fence: int, at: float, until: float) -> list[Event]:
    return [
        Event(at, who, Kind.ASKED, "job", who),
        Event(at, who, Kind.GRANTED, "job", who, fence, until),
        Event(at, who, Kind.WROTE, "job", who, fence),
        Event(at, who, Kind.EXTENDED, "job", who, fence, until),
        Event(until, who, Kind.LOST, "job", who, fence),
    ]


def judged(*events: Event, complaints: list[str] | None = None) -> Verdict:
    return reach(History(events), 10.0, {"frozen": 2}, complaints or [], {})


def test_a_clean_run() -> None:
    verdict = judged(*lease("c1", 1, 1.0, 2.0), *lease("c2", 2, 2.5, 3.0))
    assert verdict.clean
    assert "2 leases, 0.2 per second\n2 of them lost" in verdict.summary()
    assert "2 faults: 2 frozen" in verdict.summary()


def test_what_the_checkers_find_is_told() -> None:
    verdict = judged(*lease("c1", 1, 1.0, 3.0), *lease("c2", 2, 2.5, 3.0))
    assert not verdict.clean
    assert "two holders at once: c2 was granted job" in verdict.summary()


def test_a_client_that_did_not_end_well_is_a_finding() -> None:
    verdict = judged(*lease("c1", 1, 1.0, 2.0), complaints=["c1 ended with 1: Traceback"])
    assert "1 findings\n  client died: c1 ended with 1" in verdict.summary()


def test_a_soak_in_which_nothing_happened_proves_nothing() -> None:
    assert {finding.label for finding in judged().findings} == {"soak without events"}


def test_of_many_findings_some_are_shown() -> None:
    verdict = judged(*lease("c1", 1, 1.0, 2.0), complaints=[f"c{i}" for i in range(30)])
    assert verdict.summary().endswith("and 10 more")


@pytest.mark.full
def test_clients_come_and_go(tmp_path: Path) -> None:
    with Ground(tmp_path) as ground:
        wait_for(lambda: len(ground.history().of(Kind.GRANTED)) > 5)
        assert list(ground.see_off()) == []
        assert ground.stored() == {}
