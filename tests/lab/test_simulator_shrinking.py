"""A failing run is brought down to what is to blame, and can be played again by its seed."""

import re

import pytest
from click.testing import CliRunner

from holdfast.cli.lab.simulate import simulate
from holdfast.core.lease_state import LeaseState
from holdfast.lab.simulator import Plan, Setup, breaks, draw, shrink
from holdfast.lab.simulator.run import smaller


def test_a_plan_is_what_is_left_of_it() -> None:
    plan = next(plan for plan in map(draw, range(100)) if len(plan.faults) > 3)
    one, fault = plan.tasks[1], plan.faults[2]

    def fails(part: Plan) -> bool:
        return fault in part.faults and one in part.tasks

    part = shrink(plan, fails)
    assert (part.tasks, part.faults) == ((one,), (fault,))


@pytest.mark.slow
def test_a_failing_run_is_shrunk_to_the_faults_that_matter() -> None:
    setup = Setup(nodes=3, guard=False)
    rule = "two holders at once"
    still = breaks(rule)
    plans = (draw(seed, setup) for seed in range(80, 3000))  # there is one soon
    plan = next(plan for plan in plans if len(plan.faults) > 3 and still(plan))
    shrunk = shrink(plan, still)
    assert still(shrunk)
    assert 0 < len(shrunk.faults) < len(plan.faults)
    assert any(getattr(fault, "loses_data", False) for fault in shrunk.faults)
    assert not any(map(still, smaller(shrunk)))


def test_the_command_shows_a_failing_run_and_how_to_play_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LeaseState, "is_lost", lambda self, now: True)
    first = CliRunner().invoke(simulate, ["--seeds", "20", "--nodes", "1"])
    assert first.exit_code == 1, first.output
    again = re.search(r"the same options and --seed (\d+)", first.output)
    assert again
    second = CliRunner().invoke(simulate, ["--seed", again[1], "--nodes", "1"])
    assert second.exit_code == 1
    assert second.output in first.output
    assert "loss not reported" in second.output


@pytest.mark.parametrize(
    "options", ["", "--engine etcd --shared", "--engine zookeeper", "--engine sql"]
)
def test_the_command_says_that_all_is_well(options: str) -> None:
    done = CliRunner().invoke(simulate, ["--seeds", "3", *options.split()])
    assert done.exit_code == 0, done.output
    assert "3 seeds" in done.output
    assert "every promise was kept" in done.output


def test_one_seed_is_shown() -> None:
    done = CliRunner().invoke(simulate, ["--seed", "3"])
    assert done.exit_code == 0, done.output
    assert "seed 3" in done.output
    assert "Skew" in done.output
