"""All scenarios, in the order in which to read them."""

from holdfast.lab.scenarios import failover, one_server, quorum_outages, quorum_votes
from holdfast.lab.scenarios.scenario import Scenario

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        one_server.DEADLOCK,
        one_server.WRONG_RELEASE,
        one_server.PAUSE,
        one_server.LATE_REPLY,
        failover.FAILOVER,
        quorum_votes.AMNESIA,
        quorum_votes.CLOCK_JUMP,
        quorum_outages.MINORITY_DOWN,
        quorum_outages.MAJORITY_DOWN,
        quorum_outages.PARTITION,
    )
}
