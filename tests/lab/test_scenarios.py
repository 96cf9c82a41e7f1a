"""The classic failures come out as they should, and one that does not is noticed."""

import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from math import inf
from pathlib import Path

import pytest

import holdfast
from holdfast.cli.lab.scenarios import conclusion, summary
from holdfast.events import Renewed
from holdfast.lab.checkers import NOT_GRANTED, TWO_HOLDERS, UNCHECKED_WRITE
from holdfast.lab.history import Event, Finding, History, Kind
from holdfast.lab.pictures.text import Steps, Terminal
from holdfast.lab.scenarios import client_process
from holdfast.lab.scenarios.catalogue import SCENARIOS
from holdfast.lab.scenarios.client_process import FENCED, PLAIN, Recipe, Registers, Role, Worker
from holdfast.lab.scenarios.scenario import Outcome, Scenario, Variant, run
from holdfast.lab.scenarios.stage import Stage, StageFailed

IN_DETAIL = [
    ("pause", "writes-on"),
    ("nodes-down", "majority"),
    ("partition", "pair"),
    ("failover", "replicas=0"),
]
"""What is looked at more closely, and breaks a promise: of those, a short run plays no others."""
ALSO_FULL = [("amnesia", "disk")]
"""What keeps every promise in a scenario of which a short run plays another variant."""
ALL = [
    pytest.param(s, v, marks=pytest.mark.full)
    if (s.name, v.name) in ALSO_FULL or (v.breaks and (s.name, v.name) not in IN_DETAIL)
    else (s, v)
    for s in SCENARIOS.values()
    for v in s.variants
]
TERMINAL = Terminal(width=80, colour=False)


def test_what_is_named_here_exists() -> None:
    known = {
        (scenario.name, variant.name)
        for scenario in SCENARIOS.values()
        for variant in scenario.variants
    }
    assert known >= {*IN_DETAIL, *ALSO_FULL}


def silence(event: Event) -> None:
    """Show nothing."""


@cache
def outcome_of(name: str, variant: str) -> Outcome:
    """What comes of it, tried once for all tests of this process."""
    scenario = SCENARIOS[name]
    [chosen] = [each for each in scenario.variants if each.name == variant]
    return run(scenario, chosen, silence)


def test_each_has_a_variant_that_must_fail_and_one_that_must_not() -> None:
    for scenario in SCENARIOS.values():
        assert any(variant.breaks for variant in scenario.variants), scenario.name
        assert any(not variant.breaks for variant in scenario.variants), scenario.name
        assert len({variant.name for variant in scenario.variants}) == len(scenario.variants)


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "variant"), ALL, ids=lambda each: each.name)
def test_it_comes_out_as_expected(scenario: Scenario, variant: Variant) -> None:
    outcome = outcome_of(scenario.name, variant.name)
    assert outcome.as_expected, "\n".join(conclusion(outcome, TERMINAL))
    if UNCHECKED_WRITE in variant.breaks:  # the same writes went to both registers
        assert [event.name for event in outcome.history.of(Kind.REJECTED)] == [FENCED]


@pytest.mark.slow
class TestDetails:
    def test_who_was_stopped_learns_of_its_loss(self) -> None:
        history = outcome_of("pause", "writes-on").history
        [lost], [resumed] = history.of(Kind.LOST), history.of(Kind.RESUMED)
        assert lost.who == "A"
        assert lost.at > resumed.at

    def test_an_outage_names_every_node(self) -> None:
        history = outcome_of("nodes-down", "majority").history
        for refused in history.of(Kind.REFUSED):
            assert re.findall(r"\bn\d:", refused.note) == ["n1:", "n2:", "n3:", "n4:", "n5:"]

    def test_a_renewal_is_recorded(self) -> None:
        history = outcome_of("partition", "pair").history
        assert {event.who for event in history.of(Kind.EXTENDED)} == {"A"}

    def test_a_promoted_replica_that_knows_an_older_counter_gives_a_greater_fence(self) -> None:
        history = outcome_of("failover", "replicas=0").history
        *_, of_a, of_b = [event.fence for event in history.of(Kind.GRANTED)]
        assert of_a is not None
        assert of_b is not None
        assert of_a < of_b


class TestVerdicts:
    def variant(self, *breaks: str) -> Variant:
        return Variant("plain", "as it is", lambda stage: None, "because", breaks)

    def outcome(self, variant: Variant, *broken: str, aborted: str = "") -> Outcome:
        scenario = Scenario("test", "a test", "a story", [variant])
        found = [Finding(rule, "it was seen", 1.0, inf) for rule in broken]
        return Outcome(scenario, variant, History([Event(0.0, "A", Kind.NOTED)]), found, aborted)

    def test_a_control_that_does_not_fail_is_not_as_expected(self) -> None:
        control = self.variant(TWO_HOLDERS)
        assert self.outcome(control, TWO_HOLDERS).as_expected
        assert not self.outcome(control).as_expected
        assert not self.outcome(control, NOT_GRANTED).as_expected
        assert not self.outcome(control, TWO_HOLDERS, NOT_GRANTED).as_expected

    def test_a_promise_that_is_broken_is_not_as_expected(self) -> None:
        assert self.outcome(self.variant()).as_expected
        assert not self.outcome(self.variant(), TWO_HOLDERS).as_expected

    def test_a_story_that_stood_still_proves_nothing(self) -> None:
        def play(stage: Stage) -> None:
            raise StageFailed("A did not get the lock")

        variant = replace(self.variant(), play=play)
        outcome = run(self.outcome(variant).scenario, variant, silence)
        assert not outcome.as_expected
        assert "A did not get the lock" in "\n".join(conclusion(outcome, TERMINAL))

    def test_it_is_told_in_words(self) -> None:
        good = self.outcome(self.variant(TWO_HOLDERS), TWO_HOLDERS)
        bad = self.outcome(self.variant(), NOT_GRANTED)
        shown = "\n".join(conclusion(good, TERMINAL))
        assert "expected  two holders at once" in shown
        assert "seen      the same" in shown
        assert "because" in shown
        shown = "\n".join(conclusion(bad, TERMINAL))
        assert "expected  every promise is kept" in shown
        assert "seen      free lock granted to no one" in shown
        assert "NOT AS EXPECTED" in shown
        assert "1 of 2 as expected" in "\n".join(summary([good, bad], TERMINAL))

    def test_a_write_after_the_lease_has_expired_is_red(self) -> None:
        steps = Steps(replace(TERMINAL, colour=True))
        granted = Event(1.0, "A", Kind.GRANTED, "job", "A1", 1760000000123456, until=2.0)
        shown = [
            steps.line(each)
            for each in (
                granted,
                Event(1.5, "A", Kind.WROTE, "plain", "A1", granted.fence),
                Event(2.5, "A", Kind.WROTE, "plain", "A1", granted.fence),
            )
        ]
        assert all("fence #1" in line for line in shown)
        assert [line.startswith("\x1b[31m") for line in shown] == [False, False, True]
        assert "its lease has expired" in shown[2]

    def test_a_rejected_fence_is_shown_beside_the_greater_one(self) -> None:
        steps = Steps(TERMINAL)
        for who, fence in (("A", 33), ("B", 34)):
            steps.line(Event(1.0, who, Kind.GRANTED, "job", who, fence, until=9.0))
        steps.line(Event(2.0, "B", Kind.WROTE, "fenced", "B", 34))
        assert "fence #1 < #2" in steps.line(Event(3.0, "A", Kind.REJECTED, "fenced", "A", 33))

    def test_colours_are_only_for_terminals(self) -> None:
        outcome = self.outcome(self.variant(), TWO_HOLDERS)
        assert "\x1b[" not in "\n".join(conclusion(outcome, TERMINAL))
        coloured = replace(TERMINAL, colour=True)
        assert "\x1b[31mNOT AS EXPECTED" in "\n".join(conclusion(outcome, coloured))


class TestRegisters:
    @pytest.fixture
    def registers(self, tmp_path: Path) -> Registers:
        return Registers(tmp_path / "registers.db")

    def test_the_fenced_one_refuses_a_smaller_fence_than_it_has_seen(
        self, registers: Registers
    ) -> None:
        fences = [7, 8, 8, 7, 9]
        taken = [registers.write(FENCED, "x", fence)[0] for fence in fences]
        assert taken == [True, True, True, False, True]

    def test_the_plain_one_takes_everything(self, registers: Registers) -> None:
        assert all(registers.write(PLAIN, "x", fence)[0] for fence in (8, 7, None))

    def test_instants_are_in_the_order_of_the_writes(self, registers: Registers) -> None:
        before = time.monotonic()
        instants = [registers.write(PLAIN, "x", 1)[1] for _ in range(3)]
        assert [before, *instants] == sorted([before, *instants])


class TestStage:
    @pytest.fixture
    def stage(self) -> Iterator[Stage]:
        with Stage(silence) as stage:
            yield stage

    @pytest.mark.slow
    def test_nothing_is_left_of_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        with Stage(silence) as stage:
            node = stage.node()
            client = stage.client("A", node.url, ttl=1.0)
            client.acquires()
            client.stop()
            pids = [node.pid, client.pid]
            assert list(tmp_path.iterdir())
        assert not list(tmp_path.iterdir())
        for pid in pids:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)

    @pytest.mark.slow
    def test_a_client_that_died_is_not_waited_for(self, stage: Stage) -> None:
        client = stage.client("A", "redis://127.0.0.1:1", ttl=1.0)
        client.die()
        with pytest.raises(StageFailed, match="A's process has ended"):
            client.reports(Kind.GRANTED)

    @pytest.mark.slow
    def test_a_client_that_died_by_itself_gets_no_order(self) -> None:
        with Stage(silence) as stage:
            client = stage.client("A", "memory://", ttl=1.0)
            client._process.kill()
            client._process.wait()
            with pytest.raises(StageFailed, match="A's process has ended"):
                client.tries(1.0)

    @pytest.mark.slow
    def test_servers_are_told_by_their_names(self) -> None:
        notes: list[str] = []
        with Stage(lambda event: notes.append(event.note)) as stage:
            node = stage.node("n1")
            stage.note("A", Kind.NOTED, f"{node.address}: is down")
        assert notes == ["n1: is down"]


def test_a_worker_reports_what_comes_of_each_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[Event] = []
    role = Role("A", "memory://", 1.0, False, Recipe.HOLDFAST, str(tmp_path / "r.db"), 0.0)
    with holdfast.Client(role.url, ttl=role.ttl) as client:  # which is closed here, as by its end
        monkeypatch.setattr(client_process, "Client", lambda url, **_: client)
        worker = Worker(role, reported.append)
        worker.acquire(1.0)
        worker.write("x", False)
        worker.release()
    assert [event.kind for event in reported] == [
        Kind.ASKED, Kind.GRANTED, Kind.WROTE, Kind.WROTE, Kind.RELEASING, Kind.RELEASED,
    ]  # fmt: skip


def test_a_renewal_that_is_reported_late_is_one_of_its_own_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[Event] = []
    role = Role("A", "memory://", 1.0, False, Recipe.HOLDFAST, str(tmp_path / "r.db"), 0.0)
    with holdfast.Client(role.url, ttl=role.ttl) as client:  # which is closed here, as by its end
        monkeypatch.setattr(client_process, "Client", lambda url, **_: client)
        worker = Worker(role, reported.append)
        for order in (worker.acquire, worker.acquire):
            order(1.0)
            worker.release()
        granted = [event for event in reported if event.kind is Kind.GRANTED]
        assert granted[0].fence is not None
        worker._look(Renewed("job", "a", granted[0].fence, 0.5, 1.0))
    assert (reported[-1].kind, reported[-1].hold) == (Kind.EXTENDED, "A1")
    assert reported[-1].fence == granted[0].fence
