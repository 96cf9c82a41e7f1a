"""Keys that are used again by one holder after the other, on real servers."""

import pytest

import holdfast
from holdfast.core.messages import Acquire, Granted, Held, Inspect, Listing, Release
from tests.equipment.servers.etcd import EtcdServer

from .test_reuse import ONE_LINE, ask
from .unreliable import store_on

pytestmark = pytest.mark.slow

PAIRS = 5


@pytest.mark.usefixtures("patient")
def test_in_a_loop_a_key_is_used_again(server: EtcdServer) -> None:
    """The servers would look through all that there ever were. Who holds it is known all the same,
    and can tie writes to it."""
    seen: set[bytes] = set()
    with holdfast.Client(server.url) as client:
        for _ in range(PAIRS):
            with client.lock("door") as lease:
                seen.update(server.keys())
                assert server.keys() == [lease.guard().key]
                assert [each.holder for each in client.leases()] == [lease.holder]
        assert len(seen) == 2, "the first lock was not taken in a loop yet"
        with client.lock("door") as lease:
            lease.extend(60)
            assert server.keys() == [lease.guard().key]
            found = client.inspect("door")
            assert found
            assert found.holder == lease.holder


@ONE_LINE
@pytest.mark.usefixtures("patient")
def test_a_lock_that_ended_before_its_holder_asked_again(server: EtcdServer) -> None:
    with store_on(server) as store:
        for holder in ("ann", "ben"):
            assert isinstance(ask(store, Acquire("door", holder, 30)), Granted)
            ask(store, Release("door", holder))
        assert isinstance(ask(store, Acquire("door", "cleo", 30)), Granted)
        server.clear()  # its time is over
        assert isinstance(ask(store, Acquire("door", "cleo", 30)), Granted)
        seen = ask(store, Inspect("door"))
        assert isinstance(seen, Listing)
        assert [each.holder for each in seen.leases] == ["cleo"]


@ONE_LINE
def test_who_does_not_want_to_wait_has_no_place_in_the_queue(server: EtcdServer) -> None:
    with store_on(server) as store:
        assert isinstance(ask(store, Acquire("door", "ann", 30)), Granted)
        server.clear()  # its time is over
        assert isinstance(ask(store, Acquire("door", "ben", 30)), Granted)
        assert isinstance(ask(store, Acquire("door", "ann", 30)), Held)
        assert len(server.keys()) == 1
