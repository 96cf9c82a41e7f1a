"""What the servers grant decides: neither their tick nor their limits need be repeated in a URL."""

from collections.abc import Iterator

import pytest

import holdfast
from tests.equipment.servers.zookeeper import ZooKeeperServer

TICK = 0.25
LONGEST = 3.0


@pytest.fixture(scope="module")
def server() -> Iterator[ZooKeeperServer]:
    """One whose sessions are shorter than the usual ttl."""
    settings = {"maxSessionTimeout": f"{1000 * LONGEST:.0f}"}
    with ZooKeeperServer(tick=TICK, settings=settings) as server:
        yield server


def test_a_lease_has_the_ttl_that_the_server_grants(server: ZooKeeperServer) -> None:
    with (
        holdfast.Client(f"zookeeper://{server.address}") as client,
        client.lock("door", timeout=20) as lease,
    ):
        assert lease.ttl == LONGEST
        assert lease.remaining() <= LONGEST - 2 * TICK
        lease.extend()
        assert lease.remaining() <= LONGEST - 2 * TICK
        with pytest.raises(holdfast.EngineUnavailable, match="maxSessionTimeout"):
            lease.extend(20)


def test_a_ttl_that_fits_is_granted_as_it_is(server: ZooKeeperServer) -> None:
    with (
        holdfast.Client(f"zookeeper://{server.address}") as client,
        client.lock("door", ttl=2, timeout=20) as lease,
    ):
        assert lease.ttl == 2


def test_a_tick_that_is_too_short_is_refused(server: ZooKeeperServer) -> None:
    url = f"zookeeper://{server.address}?tick={TICK / 2}&max_ttl=20"
    with (
        holdfast.Client(url, ttl=2) as client,
        pytest.raises(holdfast.EngineUnavailable, match="cannot be used like this") as error,
    ):
        client.lock("door").acquire(blocking=False)
    assert f"tick={TICK / 2:g} is too short" in str(error.value)
