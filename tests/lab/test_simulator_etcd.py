"""The simulator over a virtual etcd: promises are kept, and planted bugs are found."""

from dataclasses import replace

import pytest

from holdfast.engines.etcd.registry import Session
from holdfast.lab.history import Kind
from holdfast.lab.simulator import Setup, draw, play
from holdfast.lab.simulator.plan import Section, Task

ETCD = Setup(engine="etcd")


def test_a_few_runs_keep_every_promise() -> None:
    grants = 0
    for seed in range(12):
        run = play(draw(seed, ETCD))
        assert run.findings == (), seed
        grants += run.grants
    assert grants > 50


def test_a_waiter_keeps_its_place_though_its_session_was_about_to_end() -> None:
    """A client waits, gets the lock, and waits again just before the etcd lease of its first wait
    ends: the next one that asks must not be granted the lock before it."""
    first = Section(0.0, "job", None, 6.0, True, None, 4.0)
    waits = Section(0.01, "job", None, 6.0, True, None, 2.7)
    again = Section(0.0, "job", None, 6.0, True, None, 0.1)
    second = Section(5.0, "job", None, 6.0, True, None, 6.0)
    last = Section(7.1, "job", None, 6.0, True, None, 0.1)
    turns = ((first,), (waits, again), (second,), (last,))
    tasks = tuple(Task(client, sections) for client, sections in enumerate(turns))
    plan = replace(draw(0, Setup(clients=4, engine="etcd")), tasks=tasks, faults=(), tail=0.0)
    run = play(plan)
    granted = [event.who for event in run.history.of(Kind.GRANTED)]
    assert granted[:5] == ["c0", "c1", "c2", "c1", "c3"]
    assert run.findings == ()


def test_a_lease_that_rests_on_an_old_keep_alive_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "is_fresh", lambda session, since: session.granted)
    labels = {finding.label for finding in play(draw(0, ETCD)).findings}
    assert "lease without a quorum" in labels
