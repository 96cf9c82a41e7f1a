"""What an operator is told of the servers: nothing bad of a sound one, and nothing good of one that
is down."""

from __future__ import annotations

import pytest

from holdfast.diagnosis import NAME
from holdfast.engines.examining import NO_ANSWER

from .stage import Stage


async def test_a_sound_engine(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    findings = await ann(ann.client.diagnose)
    bad = [each for each in findings if NO_ANSWER in each.what or "failed" in each.what]
    assert bad == []  # how a server of the tests is set up may be critical for others
    assert any("a waiter had the lock" in finding.what for finding in findings)
    assert await ann(ann.client.inspect, NAME) is None, "it left its lock behind"
    assert await ann(ann.client.leases) == []


@pytest.mark.slow
@pytest.mark.needs("outage")
async def test_an_engine_that_is_down(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    with stage.place.outage():
        findings = await ann(ann.client.diagnose)
    assert findings[0].severity == "critical"
    assert all(finding.what and finding.where for finding in findings)
