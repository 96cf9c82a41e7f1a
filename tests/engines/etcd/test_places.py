"""Keys that are used again by one holder after the other, on real servers."""

import pytest

import holdfast
from holdfast.lab.servers.etcd import EtcdServer

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
