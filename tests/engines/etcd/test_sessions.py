"""One etcd lease for all locks of a client that have the same ttl, through the store's port."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

import holdfast
from holdfast.core.messages import (
    Acquire,
    Break,
    Done,
    Extend,
    Failed,
    Granted,
    NotYours,
    Release,
)
from holdfast.drivers.common import clock
from holdfast.engines.etcd.connection import Connection, ErrorReply
from holdfast.engines.etcd.protocol import LEASE_KEEP_ALIVE
from tests.equipment.servers.etcd import EtcdServer
from tests.patience import wait_for

from .unreliable import Step, UnreliableStore, ask, store_on

pytestmark = pytest.mark.slow

TTL = 4


@pytest.fixture
def other(server: EtcdServer) -> Iterator[UnreliableStore]:
    with store_on(server) as store:
        yield store


def test_many_locks_have_one_etcd_lease(server: EtcdServer) -> None:
    with holdfast.Client(server.url, ttl=600) as client:  # no renewal while the test runs
        leases = [client.lock(f"door {i}").acquire() for i in range(50)]
        assert len(server.leases()) == 1
        kept = server.calls("LeaseKeepAlive")
        granted = server.calls("LeaseGrant")
        for lease in leases:
            assert lease
            lease.release()
        assert not server.keys()
        with client.lock("door 0"):
            pass
        assert server.calls("LeaseGrant") == granted
        assert server.calls("LeaseKeepAlive") <= kept + 1, "not one for each lock"
    assert not server.leases()


def test_one_keep_alive_extends_them_all(server: EtcdServer, store: UnreliableStore) -> None:
    fences = [ask(store, Acquire(f"door {i}", f"ann {i}", 30)) for i in range(50)]
    kept = server.calls("LeaseKeepAlive")
    requests = [
        Extend(f"door {i}", f"ann {i}", 30, granted.fence)
        for i, granted in enumerate(fences)
        if isinstance(granted, Granted)
    ]
    answers = store.ask(requests, clock() + 10)
    assert [type(answer) for answer in answers] == [Done] * 50
    assert server.calls("LeaseKeepAlive") == kept + 1


def test_a_lease_begins_with_a_fresh_keep_alive(server: EtcdServer) -> None:
    """The servers count from the last one, and a holder from when it asked."""
    later = 0.0

    def kept_alive() -> int:
        before = server.calls("LeaseKeepAlive") + server.calls("LeaseGrant")
        [answer] = store.ask([Acquire(f"door {before}", f"ann {before}", 30)], later_clock() + 10)
        assert isinstance(answer, Granted)
        return server.calls("LeaseKeepAlive") + server.calls("LeaseGrant") - before

    def later_clock() -> float:
        return clock() + later

    with store_on(server, later_clock) as store:
        assert kept_alive() == 1, "the session is granted"
        later = 2.0
        assert kept_alive() == 1, "the last one was 2 s ago"


def test_a_lease_that_is_not_renewed_ends_though_others_are(
    store: UnreliableStore, other: UnreliableStore
) -> None:
    kept, ended = ask(store, Acquire("gate", "ann", TTL)), ask(store, Acquire("door", "ben", TTL))
    assert isinstance(kept, Granted)
    assert isinstance(ended, Granted)

    def taken(key: str) -> bool:
        assert isinstance(ask(store, Extend("gate", "ann", TTL, kept.fence)), Done)
        return isinstance(ask(other, Acquire(key, f"dan of {key}", 30)), Granted)

    wait_for(lambda: taken("door"))
    assert not taken("gate")
    assert isinstance(ask(store, Extend("door", "ben", TTL, ended.fence)), NotYours)
    assert isinstance(ask(store, Release("door", "ben")), NotYours)
    assert isinstance(ask(other, Release("door", "dan of door")), Done)


def test_an_expired_lease_is_not_extended_by_a_session_that_another_keeps_alive(
    server: EtcdServer, other: UnreliableStore
) -> None:
    """Also where no one has looked yet for leases that were not extended in time."""
    now = clock()
    with store_on(server, lambda: now) as store:
        kept, ended = ask(store, Acquire("gate", "ann", 30)), ask(store, Acquire("door", "ben", 30))
        assert isinstance(kept, Granted)
        assert isinstance(ended, Granted)
        now += 29.9
        assert isinstance(ask(store, Extend("gate", "ann", 30, kept.fence)), Done)
        now += 0.2
        assert isinstance(ask(store, Extend("door", "ben", 30, ended.fence)), NotYours)
        now += 1.0
        assert isinstance(ask(store, Extend("gate", "ann", 30, kept.fence)), Done)
        assert isinstance(ask(other, Acquire("door", "dan", 30)), Granted), "it blocks no one"


def test_a_release_that_failed_is_repeated_though_its_lease_has_ended(
    server: EtcdServer, other: UnreliableStore
) -> None:
    """Its place may last longer, since its session was kept alive for another lease."""
    now = clock()
    with store_on(server, lambda: now) as store:
        kept, ended = ask(store, Acquire("gate", "ann", 30)), ask(store, Acquire("door", "ben", 30))
        assert isinstance(kept, Granted)
        assert isinstance(ended, Granted)
        now += 20
        assert isinstance(ask(store, Extend("gate", "ann", 30, kept.fence)), Done)
        with store.losing(0, "request lost"):
            assert isinstance(ask(store, Release("door", "ben")), Failed)
        now += 11
        assert isinstance(ask(store, Acquire("window", "ann", 30)), Granted)
        assert isinstance(ask(store, Release("door", "ben")), Done)
        assert isinstance(ask(other, Acquire("door", "dan", 30)), Granted)


def test_a_broken_lease_is_found_out_by_the_next_renewal(
    store: UnreliableStore, other: UnreliableStore
) -> None:
    broken, kept = ask(store, Acquire("door", "ann", 30)), ask(store, Acquire("gate", "ben", 30))
    assert isinstance(broken, Granted)
    assert isinstance(kept, Granted)
    assert isinstance(ask(other, Break("door")), Done)
    assert isinstance(ask(other, Acquire("door", "dan", 30)), Granted)
    requests = [Extend("door", "ann", 30, broken.fence), Extend("gate", "ben", 30, kept.fence)]
    assert [type(each) for each in store.ask(requests, clock() + 10)] == [NotYours, Done]
    assert isinstance(ask(store, Release("door", "ann")), NotYours)
    assert isinstance(ask(other, Release("door", "dan")), Done)


def test_a_keep_alive_that_is_refused(
    store: UnreliableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(store, Acquire("door", "ann", 30))
    send = store._send

    def refuse(step: Step, connection: Connection, until: float) -> Any:
        if step[0].method is LEASE_KEEP_ALIVE:
            return [ErrorReply(grpc.StatusCode.PERMISSION_DENIED, "permission denied")]
        return send(step, connection, until)

    monkeypatch.setattr(store, "_send", refuse)
    answer = ask(store, Extend("door", "ann", 30))
    assert isinstance(answer, Failed)
    assert "permission denied" in str(answer)


def test_a_session_that_was_ended_by_hand_loses_all_its_leases_at_once(server: EtcdServer) -> None:
    with holdfast.Client(server.url) as client:
        leases = [client.lock(f"door {i}").acquire() for i in range(3)]
        [session] = server.leases()
        server.command("lease/revoke", ID=str(session))
        assert leases[0]
        with pytest.raises(holdfast.LockLost):
            leases[0].extend()
        wait_for(lambda: all(lease is not None and lease.lost for lease in leases))
        with client.lock("door 0"), client.lock("door 1"):
            pass


def test_an_extension_to_a_longer_ttl_moves_one_lease_only(
    server: EtcdServer, store: UnreliableStore
) -> None:
    ann, ben = ask(store, Acquire("door", "ann", 30)), ask(store, Acquire("gate", "ben", 30))
    assert isinstance(ann, Granted)
    assert isinstance(ben, Granted)
    assert isinstance(ask(store, Extend("door", "ann", 300, ann.fence)), Done)
    assert isinstance(ask(store, Extend("door", "ann", 30, ann.fence)), Done), "never shorter"
    ttls = sorted(
        int(server.command("lease/timetolive", ID=str(each))["grantedTTL"])
        for each in server.leases()
    )
    assert ttls == [30, 300]
    assert isinstance(ask(store, Extend("gate", "ben", 30, ben.fence)), Done)
    for key, holder in (("door", "ann"), ("gate", "ben")):
        assert isinstance(ask(store, Release(key, holder)), Done)
    assert server.keys() == []


def test_names_of_places_are_used_again(server: EtcdServer) -> None:
    """etcd looks through all names that a queue ever had."""
    seen: set[bytes] = set()
    with holdfast.Client(server.url) as client:
        for _ in range(5):
            with client.lock("door") as lease:
                seen.update(server.keys())
                assert [each.holder for each in client.leases()] == [lease.holder]
    assert len(seen) == 1


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_process_ends_though_its_client_was_not_closed(server: EtcdServer, mode: str) -> None:
    """Its etcd leases end with their ttl."""
    command = [sys.executable, "-m", "tests.engines.unclosed", server.url, mode]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.stdout == "True\n", ran.stderr
