"""Jepsen's shape for locks: whoever is stopped while it has the lock comes too late."""

import pytest

from tests.engines.zookeeper.glimpse import outsider, places
from tests.equipment.counting import NAME, trial
from tests.equipment.servers.zookeeper import ZooKeeperServer
from tests.patience import wait_for


@pytest.mark.timeout(240)
def test_only_the_fence_keeps_a_late_count_out(server: ZooKeeperServer) -> None:
    tally = trial(server.url, seconds=15, ttl=2, clients=5, every=5)
    assert tally.pauses >= 2
    assert tally.plain.lost > 0, "the control shows that the pauses do harm"
    assert tally.fenced.lost == 0
    assert tally.fenced.refused >= tally.pauses
    with outsider(server) as eye:
        wait_for(lambda: not places(eye, NAME))
