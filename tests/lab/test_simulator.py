"""The simulator: promises are kept in thousands of runs, and broken where they must be."""

import os
import subprocess
import sys
from collections import Counter

import pytest

from holdfast.lab.history import Kind
from holdfast.lab.simulator import Setup, campaign, draw, play
from holdfast.lab.simulator.faults import KINDS

BLOCK = 250
BLOCKS = 20


def no_promise_is_broken(seeds: range) -> None:
    tally = campaign(seeds, Setup(), until_broken=True)
    run = tally.first
    assert run is None, (run.plan.seed, run.findings)
    assert tally.grants > len(seeds)


@pytest.mark.parametrize("first", range(0, 40, 8))
def test_a_few_runs_keep_every_promise(first: int) -> None:
    no_promise_is_broken(range(first, first + 8))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_thousands_of_runs_keep_every_promise(block: int) -> None:
    no_promise_is_broken(range(block * BLOCK, (block + 1) * BLOCK))


@pytest.mark.slow
def test_every_kind_of_fault_happens() -> None:
    faults = Counter[str]()
    for seed in range(300):
        faults.update(play(draw(seed)).faults)
    assert [kind.__name__ for kind in KINDS if not faults[kind.__name__]] == []


@pytest.mark.slow
def test_runs_are_eventful() -> None:
    """What is to be tested does happen: losses, refusals, extensions, stale writes turned away."""
    kinds = Counter[Kind]()
    for seed in range(300):
        kinds.update(event.kind for event in play(draw(seed)).history)
    for kind in (Kind.GRANTED, Kind.EXTENDED, Kind.LOST, Kind.REFUSED, Kind.TURNED_AWAY):
        assert kinds[kind] > 10, kind


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setup", "rule"),
    [
        (Setup(nodes=3, guard=False), "one holder at a time"),
        (Setup(nodes=3, drift=4.0), "a lease is a quorum's"),
        (Setup(nodes=1, drift=4.0), "a lease is a quorum's"),
    ],
    ids=["nodes that forget, without a guard", "clocks too far apart", "one node's clock, too"],
)
def test_what_the_algorithm_does_not_allow_for_is_found_out(setup: Setup, rule: str) -> None:
    for seed in range(3000):
        if any(finding.rule == rule for finding in play(draw(seed, setup)).findings):
            return
    pytest.fail("nothing was found")


def test_the_same_seed_is_the_same_run() -> None:
    assert play(draw(7)).history.as_lines() == play(draw(7)).history.as_lines()
    assert play(draw(7)).history.as_lines() != play(draw(8)).history.as_lines()


@pytest.mark.slow
def test_the_same_seed_is_the_same_run_in_another_process() -> None:
    code = (
        "from holdfast.lab.simulator import draw, play\n"
        "print(*(play(draw(seed)).history.as_lines() for seed in range(5)))"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "4711")
    ]
    assert runs[0] == runs[1]
    assert len(runs[0]) > 10_000
