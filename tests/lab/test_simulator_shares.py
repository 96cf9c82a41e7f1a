"""The simulator with readers, semaphores and exclusive holders of one name, on every engine: the
promises are kept, and planted bugs are found."""

from dataclasses import replace
from typing import Any

import pytest

from holdfast.engines import queue
from holdfast.engines.etcd import locks as etcd
from holdfast.engines.zookeeper import locks as zookeeper
from holdfast.lab.simulator import Setup, draw, play
from holdfast.lab.simulator.faults import Cancel, Freeze, Refuse
from holdfast.lab.simulator.plan import Section, Task
from holdfast.lab.simulator.record import Mark, When
from tests.lab.test_simulator_sql import plant

ENGINES = pytest.mark.parametrize("engine", ["etcd", "zookeeper", "sql"])
BESIDE = "two holders at once"

READERS_AND_WRITER = (0, 1, 0)
WRITER_AND_READER = (1, 0)
SLOTS = (2, 2, 2)


def crowd(engine: str, *kinds: int) -> set[str]:
    """What goes wrong when clients ask for such shares one after the other, and nothing fails. They
    come late, when all is known to be calm."""
    setup = Setup(nodes=1, clients=len(kinds), seconds=20.0, engine=engine, shared=True)
    plan = draw(0, setup)
    works = Section(8.0, "job", None, plan.max_ttl, True, None, 1.0)
    tasks = tuple(
        Task(client, (replace(works, rest=8.0 + 0.3 * client, shares=shares),))
        for client, shares in enumerate(kinds)
    )
    run = play(replace(plan, tasks=tasks, faults=(), tail=0.0))
    return {finding.label for finding in run.findings}


@ENGINES
def test_a_few_runs_keep_every_promise(engine: str) -> None:
    setup = Setup(engine=engine, shared=True)
    grants, shares = 0, set[int | None]()
    for seed in range(7):
        run = play(draw(seed, setup))
        assert run.findings == (), seed
        grants += run.grants
        shares |= {event.shares for event in run.history}
    assert grants > 50
    assert {0, 2} < shares


@ENGINES
@pytest.mark.parametrize("kinds", [READERS_AND_WRITER, WRITER_AND_READER, SLOTS], ids=str)
def test_a_crowd_keeps_every_promise(engine: str, kinds: tuple[int, ...]) -> None:
    assert crowd(engine, *kinds) == set()


@pytest.mark.parametrize("engine", ["etcd", "zookeeper"])
def test_a_slot_too_many_is_found(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    module: Any = {"etcd": etcd, "zookeeper": zookeeper}[engine]
    rule = queue.in_the_way
    one_more = lambda before, shares, of: rule(before[shares > 1 :], shares, of)  # noqa: E731
    monkeypatch.setattr(module, "in_the_way", one_more)
    assert BESIDE in crowd(engine, *SLOTS)


def test_etcd_a_reader_that_does_not_wait_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    rule: Any = etcd.Locks._waits

    def rash(locks: Any, claim: Any, *arguments: Any) -> bool:
        return bool(claim.shares and rule(locks, claim, *arguments))

    monkeypatch.setattr(etcd.Locks, "_waits", rash)
    assert BESIDE in crowd("etcd", *WRITER_AND_READER)
    assert "waiter overtaken" in crowd("etcd", *READERS_AND_WRITER)


def test_zookeeper_a_reader_that_does_not_wait_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = queue.in_the_way
    rash = lambda before, shares, of: rule(before, shares, of) if shares else []  # noqa: E731
    monkeypatch.setattr(zookeeper, "in_the_way", rash)
    assert BESIDE in crowd("zookeeper", *WRITER_AND_READER)
    assert "waiter overtaken" in crowd("zookeeper", *READERS_AND_WRITER)


def test_sql_a_slot_too_many_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "enter", "> (SELECT count(*)", ">= (SELECT count(*)")
    assert BESIDE in crowd("sql", *SLOTS)


def test_sql_a_reader_beside_a_writer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "enter", "l.holder IS NULL OR", "true OR l.holder IS NULL OR")
    assert BESIDE in crowd("sql", *WRITER_AND_READER)


def test_sql_a_reader_that_overtakes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "enter", "NOT l.queued AND", "")
    assert "waiter overtaken" in crowd("sql", *READERS_AND_WRITER)


def test_a_place_that_a_server_refused_to_remove_for_a_ttl_is_given_up() -> None:
    """The ttl counts from the cancellation, after which the caller has tried to deliver it."""
    works = Section(0.03, "job", None, 1.0, True, None, 0.9)
    tasks = (Task(1, (works,)), Task(2, (replace(works, rest=0.0, work=2.2),)))
    released = When(Mark.SENT_RELEASE, 5)
    faults = (
        Freeze(released, (0, 2), 0.9),
        Cancel(released, 1),
        Refuse(When(Mark.SENT_EXTEND, 3), (0, 2), error=26, share=1.0, lasting=2.4),
    )
    plan = draw(0, Setup(nodes=3, clients=3))
    run = play(replace(plan, max_ttl=2.0, tasks=tasks, faults=faults, tail=0.0))
    assert run.findings == ()
    assert run.faults == {"Freeze": 1, "Cancel": 1, "Refuse": 1}
