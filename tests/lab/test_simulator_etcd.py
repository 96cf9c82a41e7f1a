"""The simulator over a virtual etcd: promises are kept, and planted bugs are found."""

from dataclasses import replace

import pytest

from holdfast.engines.etcd import commands
from holdfast.engines.etcd.commands import Call, Place, Span
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


def test_a_grant_without_a_look_at_the_own_place_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """That the place before is gone would be taken for a grant."""
    confirm = commands.confirm

    def hasty(queue: Span, place: Place, lease: int, holder: str) -> Call:
        call = confirm(queue, place, lease, holder)
        del call.request.compare[0]
        return call

    monkeypatch.setattr(commands, "confirm", hasty)
    labels = {finding.label for seed in (79, 156) for finding in play(draw(seed, ETCD)).findings}
    assert "two holders at once" in labels
