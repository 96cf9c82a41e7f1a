"""What the servers grant decides: neither their tick nor their limits need be repeated in a URL."""

import time
from collections.abc import Iterator
from math import inf
from urllib.parse import urlsplit

import pytest

import holdfast
from holdfast.core.messages import Acquire, Failed
from holdfast.core.ports import StoreHost
from holdfast.engines import open_engine
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
        pytest.raises(holdfast.EngineUnavailable, match=f"tick={TICK / 2:g} is too short"),
    ):
        client.lock("door").acquire(blocking=False)


@pytest.mark.parametrize("terms", [f"?tick={TICK / 2}&max_ttl=20", ""], ids=["tick", "right"])
def test_what_waiting_does_not_heal_is_told(server: ZooKeeperServer, terms: str) -> None:
    """A wrong tick, and a missing right."""
    folder = "/private" if not terms else ""
    if folder:
        url = f"zookeeper://ann:secret@{server.address}{folder}"
        with holdfast.Client(url) as client, client.lock("door", timeout=20):
            pass
    engine = open_engine(urlsplit(f"zookeeper://{server.address}{folder}"), _given(terms))
    store = engine.connect(StoreHost(time.monotonic, print, print))
    try:
        request = Acquire("holdfast:door", "host/1/program/5ec2e7", 2.0)
        [answer] = store.ask([request], time.monotonic() + 20)
        assert isinstance(answer, Failed)
        assert answer.heals_in == inf
    finally:
        store.close()


def _given(terms: str) -> dict[str, str]:
    return dict(each.split("=") for each in terms.removeprefix("?").split("&") if each)
