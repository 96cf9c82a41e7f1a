"""All scenarios, in the order in which to read them."""

from holdfast.lab.scenarios import (
    amnesia,
    clock_jump,
    deadlock,
    failover,
    late_reply,
    nodes_down,
    partition,
    pause,
    split_vote,
    standby,
    wrong_release,
)
from holdfast.lab.scenarios.scenario import Scenario

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        deadlock.SCENARIO,
        wrong_release.SCENARIO,
        pause.SCENARIO,
        late_reply.SCENARIO,
        failover.SCENARIO,
        standby.SCENARIO,
        amnesia.SCENARIO,
        clock_jump.SCENARIO,
        split_vote.SCENARIO,
        nodes_down.MINORITY_DOWN,
        nodes_down.MAJORITY_DOWN,
        partition.SCENARIO,
    )
}
