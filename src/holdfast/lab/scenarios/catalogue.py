"""All scenarios, in the order in which to read them."""

from holdfast.lab.scenarios import one_server, quorum
from holdfast.lab.scenarios.scenario import Scenario

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        one_server.DEADLOCK,
        one_server.WRONG_RELEASE,
        one_server.PAUSE,
        one_server.LATE_REPLY,
        one_server.FAILOVER,
        quorum.AMNESIA,
        quorum.CLOCK_JUMP,
        quorum.MINORITY_DOWN,
        quorum.MAJORITY_DOWN,
        quorum.PARTITION,
    )
}
