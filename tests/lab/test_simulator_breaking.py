"""The simulator: an operator breaks a lock."""

from dataclasses import replace

import pytest

from holdfast.core.effects import Steps
from holdfast.core.messages import DONE
from holdfast.engines.redis.commands import Commands
from holdfast.lab.history import Kind
from holdfast.lab.simulator import Run, Setup, draw, play
from holdfast.lab.simulator.faults import Break, Cut, Jump, Kill, Pause
from holdfast.lab.simulator.plan import Section, Task
from holdfast.lab.simulator.record import Mark, When

SETUPS = [
    Setup(nodes=1),
    Setup(nodes=3),
    Setup(engine="etcd"),
    Setup(engine="zookeeper"),
    Setup(engine="sql"),
]


def broken(setup: Setup, *, shares: int = 1, whole: bool = True) -> Run:
    """Client 0 has a lock, and client 1 waits for it, when client 2 breaks it."""
    ttl = 2.0 if setup.engine == "zookeeper" else 1.0
    works = Section(0.0, "job", None, ttl, True, None, 5.0, shares=shares)
    waits = replace(works, rest=0.3, work=0.0, shares=1)
    tasks = Task(0, (works,)), Task(1, (waits,))
    fault = Break(When(Mark.GRANTED, 1, 0.5), 2, "job", whole)
    plan = draw(0, replace(setup, clients=3))
    return play(replace(plan, tasks=tasks, faults=(fault,), tail=0.0))


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("setup", SETUPS, ids=lambda setup: f"{setup.engine}-{setup.nodes}")
def test_the_waiter_gets_it_and_the_holder_learns_of_it(setup: Setup, whole: bool) -> None:
    run = broken(setup, whole=whole)
    assert run.findings == ()
    assert run.faults["Break"] == 1
    first, second, *_ = run.history.of(Kind.GRANTED)
    [lost] = run.history.of(Kind.LOST)
    assert (first.who, second.who, lost.who) == ("c0", "c1", "c0")
    assert (first.fence or 0) < (second.fence or 0)
    assert lost.at < first.at + 3


@pytest.mark.parametrize(
    ("seed", "setup"),
    [
        (534910682, Setup(engine="zookeeper", shared=True)),
        (733542691, Setup(engine="etcd")),
    ],
    ids=["zookeeper", "etcd"],
)
def test_it_may_be_broken_before_its_holder_learns_that_it_has_it(seed: int, setup: Setup) -> None:
    """The holder had its place; it is broken while the holder waits for the last reply."""
    run = play(draw(seed, setup))
    assert run.faults["Break"]
    assert run.findings == ()


def test_a_holder_that_is_not_told_at_its_next_renewal_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Commands, "_read_codes", lambda self, replies: [DONE] * len(replies))
    assert "lease without a quorum" in {each.label for each in broken(SETUPS[0]).findings}


UNKNOWN = {
    "no reply": Cut(When(Mark.START, delay=0.9), 2, (0,), 8.0, to=False),
    "a client that dies": Kill(When(Mark.START, delay=1.0), 2),
}


@pytest.mark.parametrize("fate", UNKNOWN)
def test_leases_are_judged_again_some_time_after_a_break_without_an_outcome(
    monkeypatch: pytest.MonkeyPatch, fate: str
) -> None:
    def found(*_: object) -> Steps[object]:
        return "a lease"
        yield

    monkeypatch.setattr("holdfast.lab.simulator.faults.inspect", found)
    works = Section(0.0, "job", None, 1.0, True, None, 25.0)
    slow = Cut(When(Mark.START, delay=0.9), 2, (0,), 2.0)
    fault = Break(When(Mark.START, delay=0.95), 2, "job", True)
    leaps = Jump(When(Mark.START, delay=22.0), 0, 60.0)
    plan = draw(0, Setup(nodes=1, clients=3))
    tasks = (Task(0, (works,)), Task(1, (replace(works, rest=0.3),)))
    plan = replace(plan, tasks=tasks, seconds=30.0, tail=0.0)
    run = play(replace(plan, faults=(slow, fault, UNKNOWN[fate], leaps)))
    assert [each.label for each in run.findings][:1] == ["lease without a quorum"]
    assert not play(replace(plan, faults=(slow, fault, UNKNOWN[fate]))).findings


def test_a_renewal_that_began_before_the_break_may_still_succeed() -> None:
    """ZooKeeper's looks for the place first, and then waits for a heartbeat."""
    works = Section(0.0, "job", None, 3.0, True, None, 5.0)
    plan = draw(0, Setup(nodes=3, clients=1, engine="zookeeper"))
    for instant in range(20):
        start = When(Mark.START, delay=0.5)
        pause = Pause(start, 0, 0.4 + instant / 20, timers_first=False)
        fault = Break(When(Mark.START, delay=0.6), 0, "job", False)
        plan = replace(plan, tasks=(Task(0, (works,)),), faults=(pause, fault), tail=0.0)
        assert play(plan).findings == ()


def test_a_client_that_is_closed_meanwhile_breaks_nothing() -> None:
    """It was paused when it was told to break the lock, and was closed when it went on."""
    run = play(draw(708620348, Setup(nodes=1)))
    assert run.faults["Break"]
    assert run.findings == ()
