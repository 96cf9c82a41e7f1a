"""The simulator with readers and writers of one name over a quorum: the promises are kept, with
faults and without. Planted bugs (`tests.mutants`) are found by these tests."""

from dataclasses import replace

import pytest

from holdfast.lab.history import Kind
from holdfast.lab.simulator import Run, Setup, draw, play
from holdfast.lab.simulator.faults import Cut, Fault, Refuse
from holdfast.lab.simulator.plan import Section, Task
from holdfast.lab.simulator.record import Mark, When

READ, WRITE = 0, 1


def crowd(nodes: int, *kinds: int, faults: tuple[Fault, ...] = ()) -> Run:
    """Clients read or write one after the other, while those before them do; each for a second.
    They come late, when all is known to be calm."""
    setup = Setup(nodes=nodes, clients=len(kinds), seconds=20.0, shared=True)
    plan = draw(0, setup)
    tasks = tuple(
        Task(client, (Section(8.0 + 0.3 * client, "job", None, 2.0, True, None, 1.0, shares=kind),))
        for client, kind in enumerate(kinds)
    )
    return play(replace(plan, tasks=tasks, faults=faults, tail=0.0, durable=True))


def grants(run: Run) -> list[str]:
    """Who was granted the lock, in order, but for the probe at the end."""
    granted = [event.who for event in run.history if event.kind is Kind.GRANTED]
    return granted[: len(run.plan.tasks)]


@pytest.mark.parametrize(("nodes", "seeds"), [(3, range(12)), (5, range(5))], ids=["3", "5"])
def test_a_few_runs_keep_every_promise(nodes: int, seeds: range) -> None:
    setup = Setup(nodes=nodes, shared=True)
    granted, shares = 0, set[int | None]()
    for seed in seeds:
        run = play(draw(seed, setup))
        assert run.findings == (), seed
        granted += run.grants
        shares |= {event.shares for event in run.history}
    assert granted > 5 * len(seeds)
    assert 0 in shares, "nothing was read"
    assert 2 not in shares, "a quorum has no semaphores"


@pytest.mark.parametrize("nodes", [3, 5])
def test_a_writer_waits_for_the_last_reader(nodes: int) -> None:
    """The first reader leaves while the second one reads: the lock stays shared."""
    run = crowd(nodes, READ, READ, WRITE)
    assert run.findings == ()
    assert grants(run) == ["c0", "c1", "c2"]


@pytest.mark.parametrize("nodes", [3, 5])
def test_a_reader_waits_for_a_writer(nodes: int) -> None:
    run = crowd(nodes, WRITE, READ)
    assert run.findings == ()
    assert grants(run) == ["c0", "c1"]


@pytest.mark.parametrize("nodes", [3, 5])
def test_a_reader_waits_behind_a_writer_that_waits(nodes: int) -> None:
    run = crowd(nodes, READ, WRITE, READ)
    assert run.findings == ()
    assert grants(run) == ["c0", "c1", "c2"]


def test_a_reader_needs_a_majority() -> None:
    """Two nodes never learn of the writer, and would let readers in."""
    cut = Cut(When(Mark.START), 0, (3, 4), to=True, back=True, lasting=20.0)
    run = crowd(5, WRITE, READ, READ, READ, faults=(cut,))
    assert run.findings == ()
    assert grants(run)[0] == "c0"
    assert set(grants(run)[1:]) == {"c1", "c2", "c3"}


def test_one_node_that_refuses_two_releases_is_a_minority() -> None:
    """It keeps both attempts of the reader, until they expire."""
    first = Section(0.0, "job", None, 0.5, True, None, 0.0)
    second = replace(first, rest=0.9, work=0.33, extend_to=0.5)
    read = replace(first, rest=0.04, timeout=0.1, work=0.2, shares=READ)
    tasks = (Task(1, (replace(first, rest=0.95, work=0.14),)), Task(1, (first, second, read)))
    refuse = Refuse(When(Mark.SENT_ACQUIRE, 6, 0.005), (1, 0), error=60, share=0.5, lasting=0.5)
    plan = draw(23, Setup(nodes=3, clients=3, shared=True))
    run = play(replace(plan, max_ttl=2.0, tasks=tasks, faults=(refuse,), tail=0.2, durable=True))
    assert run.findings == ()
    assert run.faults == {"Refuse": 1}


@pytest.mark.parametrize("seed", [117, 132, 157, 215])
def test_no_reader_overtakes_two_writers_that_wait(seed: int) -> None:
    """A vote is lost as soon as two of three nodes refuse it, and is then released on the third:
    the writer keeps its place there. These seeds differ in how long messages take."""

    def section(kind: int, rest: float, work: float) -> Section:
        return Section(rest, "job", None, 2.0, True, None, work, shares=kind)

    tasks = (
        Task(0, (section(READ, 1.9, 4.4),)),
        Task(1, (section(READ, 1.96, 0.19), section(READ, 0.04, 0.0))),
        Task(2, (section(WRITE, 0.0, 4.4), section(READ, 0.0, 0.0), section(WRITE, 0.0, 4.4))),
        Task(3, (section(WRITE, 0.01, 0.25),)),
    )
    plan = draw(seed, Setup(nodes=3, clients=4, shared=True))
    run = play(replace(plan, tasks=tasks, faults=(), tail=0.0))
    assert run.findings == ()
    held = [(event.who, event.shares) for event in run.history if event.kind is Kind.GRANTED]
    writers = [at for at, (who, kind) in enumerate(held[1:], 1) if kind is None and who != "c4"]
    assert held.index(("c1", READ), held.index(("c1", READ)) + 1) > min(writers)
