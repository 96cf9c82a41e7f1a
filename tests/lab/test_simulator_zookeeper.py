"""The simulator over a virtual ZooKeeper: promises are kept, and planted bugs are found."""

from collections import Counter
from dataclasses import replace

import pytest

from holdfast.engines.zookeeper.locks import Locks
from holdfast.engines.zookeeper.registry import Claim
from holdfast.engines.zookeeper.sessions import Calls, Session
from holdfast.lab.history import Kind
from holdfast.lab.simulator import Run, Setup, draw, play
from holdfast.lab.simulator.faults import Cut, Isolate, Pause
from holdfast.lab.simulator.plan import Section, Task
from holdfast.lab.simulator.record import Mark, When

ZOOKEEPER = Setup(engine="zookeeper")


def labels(*seeds: int) -> set[str]:
    """What goes wrong in these runs."""
    return {finding.label for seed in seeds for finding in play(draw(seed, ZOOKEEPER)).findings}


def test_a_few_runs_keep_every_promise() -> None:
    grants, faults = 0, Counter[str]()
    for seed in range(8, 18):
        run = play(draw(seed, ZOOKEEPER))
        assert run.findings == (), seed
        grants += run.grants
        faults += run.faults
    assert grants > 100
    assert faults["Isolate"] > 2


def test_a_leader_does_not_read_the_connection_of_a_server_that_it_gave_up() -> None:
    """Else a join could be carried out behind the look for its place."""
    works = Section(0.0, "job", None, 1.5, True, None, 0.0)
    turns = [
        replace(works, name="a", rest=rest, work=work)
        for rest, work in ((0.0, 0.2), (0.0, 0.1), (0.0, 0.3), (0.04, 0.0), (0.0, 0.0))
    ]
    tasks = (Task(0, (replace(works, rest=0.1),)), Task(2, tuple(turns)))
    released = When(Mark.RELEASING, 5)
    faults = (
        Isolate(released, (0,), 1.5),
        Cut(released, 2, (1, 2), 2.6),
        Isolate(When(Mark.GRANTED, 1, 1.5), (2,), 0.9),
    )
    plan = draw(5, Setup(nodes=3, clients=3, engine="zookeeper"))
    run = play(replace(plan, max_ttl=3.0, tasks=tasks, faults=faults, tail=0.0))
    assert run.findings == ()
    assert run.faults == {"Isolate": 2, "Cut": 1}


def test_waiters_are_served_in_order() -> None:
    works = Section(0.0, "job", None, 3.0, True, None, 1.0)
    tasks = tuple(Task(client, (replace(works, rest=client * 0.2),)) for client in (0, 1, 2, 3))
    plan = replace(draw(0, Setup(clients=4, engine="zookeeper")), tasks=tasks, faults=(), tail=0.0)
    run = play(plan)
    granted = [event.who for event in run.history.of(Kind.GRANTED)]
    assert granted[:4] == ["c0", "c1", "c2", "c3"]
    assert run.findings == ()


def paused_at(step: int) -> Run:
    """A client is paused when it has sent the nth request, until its session is about to end."""
    works = Section(0.0, "job", None, 1.0, True, None, 0.5)
    tasks = (Task(0, (works,)), Task(1, (replace(works, rest=1.4),)))
    paused = Pause(When(Mark.SENT_ACQUIRE, step, 0.001, 0), 0, 1.22, timers_first=False)
    plan = draw(0, Setup(nodes=3, clients=2, engine="zookeeper"))
    return play(replace(plan, tasks=tasks, faults=(paused,), tail=0.0))


@pytest.mark.parametrize("step", range(1, 6))
def test_no_lock_is_granted_by_a_place_whose_session_has_ended(step: int) -> None:
    """It ends while the client waits for the leader to know it; the next one is known."""
    assert paused_at(step).findings == ()


def test_a_lease_on_a_session_that_the_leader_may_have_given_up_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a follower has acknowledged is not yet known to the leader."""
    monkeypatch.setattr(Session, "is_fresh", lambda session, since: True)
    found = {finding.label for step in range(1, 6) for finding in paused_at(step).findings}
    assert "lease without a quorum" in found


def test_a_place_that_was_not_looked_for_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reply to its creation was lost, and its holder has released the lock."""

    def find(locks: Locks, claim: Claim) -> Calls[None]:
        claim.gone()
        yield from ()

    monkeypatch.setattr(Locks, "_find", find)
    assert "lock left behind" in labels(0, 8)
