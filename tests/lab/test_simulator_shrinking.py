"""A failing run is brought down to what is to blame, and can be played again by a command."""

import re
import shlex

import pytest
from click.testing import CliRunner

from holdfast.cli.lab.simulate import simulate
from holdfast.lab.simulator import Plan, Setup, breaks, draw, shrink


def test_a_plan_is_what_is_left_of_it() -> None:
    plan = next(plan for plan in map(draw, range(100)) if len(plan.faults) > 3)
    one, fault = plan.tasks[1], plan.faults[2]

    def fails(part: Plan) -> bool:
        return fault in part.faults and one in part.tasks

    part = shrink(plan, fails)
    assert part.tasks == (1,)
    assert plan.part(*part).faults == (fault,)
    assert plan.part(*part).tasks == (one,)


@pytest.mark.slow
def test_a_failing_run_is_shrunk_to_the_faults_that_matter() -> None:
    setup = Setup(nodes=3, guard=False)
    rule = "two holders at once"
    still = breaks(rule)
    plans = (draw(seed, setup) for seed in range(24, 3000))  # there is one soon
    plan = next(plan for plan in plans if len(plan.faults) > 3 and still(plan))
    part = shrink(plan, still)
    shrunk = plan.part(*part)
    assert still(shrunk)
    assert 0 < len(shrunk.faults) < len(plan.faults)
    assert any(getattr(fault, "loses_data", False) for fault in shrunk.faults)
    assert not any(still(plan.part(*each)) for each in part.smaller())


@pytest.mark.slow
def test_the_command_shows_a_failing_run_and_how_to_play_it_again() -> None:
    runner = CliRunner()
    options = ["--nodes", "1", "--drift", "4"]
    first = runner.invoke(simulate, ["--seeds", "20", *options])
    assert first.exit_code == 1, first.output
    again = re.search(r"holdfast lab simulate (.*)", first.output)
    assert again
    second = runner.invoke(simulate, shlex.split(again[1]))
    assert second.exit_code == 1, second.output
    assert "lease without a quorum" in second.output


@pytest.mark.parametrize(
    "options", ["", "--engine etcd --shared", "--engine zookeeper", "--engine sql"]
)
def test_the_command_says_that_all_is_well(options: str) -> None:
    done = CliRunner().invoke(simulate, ["--seeds", "3", "--jobs", "1", *options.split()])
    assert done.exit_code == 0, done.output
    assert "3 seeds" in done.output
    assert "every promise was kept" in done.output


def test_it_plays_where_the_system_does_not_tell_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only Linux has `sched_getaffinity`."""
    monkeypatch.delattr("os.sched_getaffinity")
    done = CliRunner().invoke(simulate, ["--seeds", "2"])
    assert done.exit_code == 0, done.output


def test_one_seed_is_shown() -> None:
    done = CliRunner().invoke(simulate, ["--seed", "3", "--without", "0,2"])
    assert done.exit_code == 0, done.output
    assert "seed 3" in done.output
    assert "Skew" in done.output
    assert "Drift" not in done.output, "it is left out"


def test_a_task_that_is_named_twice_is_played_once() -> None:
    once, twice = (
        CliRunner().invoke(simulate, ["--seed", "3", "--tasks", tasks]) for tasks in ("0", "0,0")
    )
    assert twice.output == once.output
