"""The simulator: servers that answer with errors. Promises are kept, and planted bugs are found."""

from dataclasses import replace

import pytest

from holdfast.core import holding, release, renewal
from holdfast.core.lease_state import TAKEN, LeaseState
from holdfast.core.messages import Answer, Failed
from holdfast.core.runtime import Runtime
from holdfast.lab.history import Kind
from holdfast.lab.simulator import Run, Setup, draw, play
from holdfast.lab.simulator.faults import Fault, Refuse
from holdfast.lab.simulator.plan import Plan, Section, Task
from holdfast.lab.simulator.record import Mark, When
from holdfast.lab.simulator.store import engine

SETUPS = [
    Setup(nodes=1),
    Setup(nodes=3),
    Setup(nodes=1, engine="etcd"),
    Setup(nodes=3, engine="zookeeper"),
    Setup(nodes=1, engine="sql"),
]

every_engine = pytest.mark.parametrize(
    "setup", SETUPS, ids=[f"{setup.engine}-{setup.nodes}" for setup in SETUPS]
)


def plan_of(setup: Setup, *faults: Fault) -> Plan:
    """Two clients, of which the second waits for the first."""
    ttl = engine(setup.engine).ttls[0]
    turns = [Section(rest, "job", None, ttl, True, None, 1.2 * ttl) for rest in (0.0, 0.1)]
    tasks = tuple(Task(client, (turn,) * 2) for client, turn in enumerate(turns))
    return replace(draw(0, replace(setup, clients=2)), tasks=tasks, faults=faults, tail=0.0)


def labels(run: Run) -> set[str]:
    return {finding.label for finding in run.findings}


def refusals(setup: Setup, mark: Mark, share_of_ttl: float = 0.0) -> list[Plan]:
    """A plan for each error: all servers answer with it, once or for a while."""
    nodes = tuple(range(setup.nodes or 1))
    lasting = max(0.002, share_of_ttl * engine(setup.engine).ttls[0])
    return [
        plan_of(setup, Refuse(When(mark, 2), nodes, error, 1.0, lasting))
        for error in range(len(engine(setup.engine).servers.ERRORS))
    ]


@every_engine
@pytest.mark.parametrize("mark", [Mark.SENT_ACQUIRE, Mark.SENT_EXTEND, Mark.SENT_RELEASE])
def test_what_is_refused_once_is_asked_again(setup: Setup, mark: Mark) -> None:
    for plan in refusals(setup, mark):
        run = play(plan)
        assert run.findings == ()
        assert run.faults == {"Refuse": 1}
        assert len(run.history.of(Kind.GRANTED)) == 5  # the last one: the probe
        assert run.history.of(Kind.LOST) == []


@every_engine
def test_a_refusal_that_is_taken_for_a_loss_is_found(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = holding.apply_extension

    def hasty(
        runtime: Runtime, lease: LeaseState, answer: Answer, began: float, ttl: float
    ) -> None:
        apply(runtime, lease, answer, began, ttl)
        if type(answer) is Failed:
            holding.mark_lost(runtime, lease, TAKEN)

    monkeypatch.setattr(renewal, "apply_extension", hasty)
    found = [labels(play(plan)) for plan in refusals(setup, Mark.SENT_EXTEND, 0.4)]
    assert {"lost for no reason"} in found


@every_engine
def test_a_refused_release_that_is_not_sent_again_is_found(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ZooKeeper engine sends it again by itself."""

    def careless(runtime: Runtime, holder: str) -> None:
        runtime.pending.confirm(holder)

    monkeypatch.setattr(release, "_leave_to_renewer", careless)
    found = [labels(play(plan)) for plan in refusals(setup, Mark.RELEASING, 0.4)]
    assert any("lock left behind" in each for each in found) == (setup.engine != "zookeeper")
