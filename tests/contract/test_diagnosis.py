"""What an operator is told of the servers: nothing bad of a sound one, and nothing good of one that
is down."""

from __future__ import annotations

import pytest

from holdfast.diagnosis import NAME
from holdfast.engines.examining import NO_ANSWER

from .stage import Stage

pytestmark = pytest.mark.turns


async def test_a_sound_engine(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    findings = await ann(ann.client.diagnose)
    bad = [each for each in findings if NO_ANSWER in each.what or "failed" in each.what]
    assert bad == []  # how a server of the tests is set up may be critical for others
    assert any("a waiter had the lock" in finding.what for finding in findings)
    assert await ann(ann.client.inspect, NAME) is None, "it left its lock behind"
    assert await ann(ann.client.leases) == []


async def test_the_nodes_of_a_sound_engine(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    nodes = await ann(ann.client.nodes)
    assert [node for node in nodes if not node.name or node.error or not node.round_trip] == []


@pytest.mark.needs("outage")
async def test_the_nodes_of_an_engine_that_is_down(stage: Stage) -> None:
    """Those that are down say why; of a quorum, some may be up."""
    (ann,) = stage.cast("ann")
    with stage.backend.outage():
        nodes = await ann(ann.client.nodes)
    silent = [node for node in nodes if not node.answers]
    assert bool(silent) == bool(nodes)
    assert all(node.margin is None or node.margin < 0 for node in nodes)
    assert all(node.round_trip is None for node in silent)


@pytest.mark.slow
@pytest.mark.needs("outage")
async def test_an_engine_that_is_down(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    with stage.backend.outage():
        findings = await ann(ann.client.diagnose)
    assert findings[0].severity == "critical"
    assert all(finding.what and finding.where for finding in findings)
