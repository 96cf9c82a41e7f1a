"""The steps of an exchange one by one, where no real server would stop between two of them."""

import threading
from typing import Any

import grpc
import pytest

from holdfast.core.messages import (
    DONE,
    NOT_YOURS,
    Acquire,
    Answer,
    Break,
    Extend,
    Granted,
    Held,
    Release,
)
from holdfast.core.ports import StoreHost
from holdfast.engines.etcd.commands import Call, Calls
from holdfast.engines.etcd.connection import read_error
from holdfast.engines.etcd.inspect import break_lock
from holdfast.engines.etcd.locks import Locks
from holdfast.engines.etcd.protocol import Method
from holdfast.engines.etcd.registry import Claim, Registry
from holdfast.engines.etcd.waiters import Watches
from holdfast.lab.simulator.etcd.server import Keyspace
from tests.engines.meanwhile import meanwhile

Step = Call | list[Call]


class Clock:
    """One that is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def host() -> StoreHost:
    return StoreHost(Clock(), lambda holder: None, lambda event: None)


@pytest.fixture
def registry(host: StoreHost) -> Registry:
    return Registry(host, {})


@pytest.fixture
def locks(registry: Registry, host: StoreHost) -> Locks:
    return Locks(registry, Watches(host.notify), host)


class Server:
    """It carries out calls at once, or later; or their replies come later."""

    def __init__(self, clock: Any) -> None:
        self.clock = clock
        self.data = Keyspace(clock, lambda key, revision: None)
        self.places_read = 0
        self._mutex = threading.Lock()

    def perform(self, step: Step) -> list[Any]:
        with self._mutex:
            return [self._perform(*each) for each in (step if isinstance(step, list) else [step])]

    def _perform(self, method: Method, request: Any) -> Any:
        name = method.path.rpartition("/")[2]
        assert name != "Txn" or writes(request)
        try:
            reply = self.data.perform(name, request.SerializeToString())
        except grpc.RpcError as error:
            return read_error(error)
        response = method.response.FromString(reply)
        for each in response.responses if name == "Txn" else ():
            self.places_read += len(each.response_range.kvs)
        return response


def writes(transaction: Any) -> bool:
    """Servers from 3.5.0 to 3.5.6 panic if a transaction that only reads is cancelled, as when its
    client is killed."""
    parts = (*transaction.success, *transaction.failure)
    return any(not each.HasField("request_range") for each in parts)


class Exchange:
    """One of several at once, which goes on step by step."""

    def __init__(self, server: Server, steps: Calls[list[Answer]]) -> None:
        self._server, self._steps = server, steps
        self._step: Any = next(steps)
        self._replies: list[Any] | None = None
        self.answers: list[Answer] | None = None

    def arrive(self) -> None:
        """The server carries out the present step."""
        if self._replies is None and self.answers is None:
            self._replies = self._server.perform(self._step)

    def go_on(self, count: int = 1) -> "Exchange":
        """Some steps more."""
        for _ in range(count):
            self.arrive()
            replies, self._replies = self._replies, None
            if self.answers is None and replies is not None:
                several = isinstance(self._step, list)
                try:
                    self._step = self._steps.send(replies if several else replies[0])
                except StopIteration as end:
                    self.answers = end.value
        return self

    def lose(self) -> None:
        """The connection is lost."""
        self._steps.close()

    def ends(self) -> list[Answer]:
        self.go_on(MOST)
        assert self.answers is not None
        return self.answers


MOST = 20
"""No exchange has as many steps."""


@pytest.fixture
def server(host: StoreHost) -> Server:
    return Server(host.clock)


@pytest.fixture
def held(server: Server, locks: Locks, registry: Registry) -> Claim:
    [answer] = Exchange(server, locks.acquire(Acquire("door", "ann", 4.0), 0.0)).ends()
    assert isinstance(answer, Granted)
    claim = registry.find_held("ann")
    assert claim
    return claim


def extending(server: Server, locks: Locks, ttl: float) -> Exchange:
    return Exchange(server, locks.extend([Extend("door", "ann", ttl, 7)], 0.0))


def releasing(server: Server, locks: Locks) -> Exchange:
    return Exchange(server, locks.release([Release("door", "ann")], set()))


def ttl_of(server: Server, claim: Claim) -> int:
    """That of the etcd lease which the place is attached to."""
    return server.data.leases[server.data.keys[claim.place].lease].ttl


@pytest.mark.parametrize("arrives", [False, True])
def test_a_release_is_not_confirmed_by_another_one_that_may_fail(
    server: Server, locks: Locks, held: Claim, arrives: bool
) -> None:
    """After an interruption, the caller and the background task release at the same time."""
    first, second, last = (releasing(server, locks) for _ in range(3))
    if arrives:
        first.arrive()
    first.lose()
    third = releasing(server, locks)
    assert second.ends() == third.ends() == [DONE]
    last.lose()
    with pytest.raises(StopIteration):
        releasing(server, locks)  # nothing is left to release


def test_of_two_releases_both_are_confirmed(server: Server, locks: Locks, held: Claim) -> None:
    first, second = releasing(server, locks), releasing(server, locks)
    assert first.ends() == [DONE]
    acquire = Acquire("door", "cleo", 4.0)
    assert isinstance(Exchange(server, locks.acquire(acquire, 0.0)).ends()[0], Granted)
    assert second.ends() == [DONE]
    assert server.data.keys[held.place].value == b"cleo", "the late one leaves that alone"


def test_a_release_is_sent_again_though_the_lease_ends_meanwhile(
    server: Server, locks: Locks, held: Claim, registry: Registry
) -> None:
    """It is not taken for a loss: the servers may have the place for longer."""
    server.clock.now = 2.0
    first = releasing(server, locks)
    registry.expire(5.0)  # another exchange comes by
    first.lose()
    assert releasing(server, locks).ends() == [DONE]


@pytest.mark.parametrize("before", range(8))
@pytest.mark.parametrize("meanwhile", range(8))
def test_a_renewal_during_a_move_to_another_session_is_no_loss(
    server: Server, locks: Locks, held: Claim, before: int, meanwhile: int
) -> None:
    moving = extending(server, locks, 60).go_on(before)
    renewing = extending(server, locks, 4).go_on(2)
    renewing.arrive()  # it reads what is attached to each session
    moving.go_on(meanwhile)
    assert renewing.ends() == moving.ends() == [DONE]
    assert ttl_of(server, held) == held.session.ttl == 60
    assert extending(server, locks, 60).ends() == [DONE]


@pytest.mark.parametrize("line", range(16))
def test_a_move_between_any_two_lines_of_a_renewal(
    server: Server, locks: Locks, held: Claim, line: int
) -> None:
    """By another thread."""
    renewing = extending(server, locks, 4).go_on()
    with meanwhile(
        line,
        ("extend", "_move", "<listcomp>", "<genexpr>"),
        lambda: extending(server, locks, 60).ends(),
    ):
        assert renewing.ends() == [DONE]
    assert ttl_of(server, held) == 60


@pytest.mark.parametrize("ttls", [(50, 60), (60, 50)])
@pytest.mark.parametrize("before", range(8))
@pytest.mark.parametrize("meanwhile", range(8))
def test_of_two_moves_at_once_the_longer_one_decides(
    server: Server, locks: Locks, held: Claim, ttls: tuple[int, int], before: int, meanwhile: int
) -> None:
    first = extending(server, locks, ttls[0]).go_on(before)
    second = extending(server, locks, ttls[1]).go_on(meanwhile)
    first.arrive()
    second.arrive()
    assert second.ends() == first.ends() == [DONE]
    assert ttl_of(server, held) == 60
    assert held.ends_at == 60
    assert extending(server, locks, 60).ends() == [DONE]
    assert releasing(server, locks).ends() == [DONE]
    assert not server.data.keys


@pytest.mark.parametrize("before", range(8))
@pytest.mark.parametrize("ttl", [4, 60, 70])
def test_a_move_whose_reply_was_lost(
    server: Server, locks: Locks, held: Claim, before: int, ttl: int
) -> None:
    moving = extending(server, locks, 60).go_on(before)
    moving.arrive()
    moving.lose()
    assert extending(server, locks, ttl).ends() == [DONE]
    assert ttl_of(server, held) >= ttl
    assert held.session.ttl == ttl_of(server, held)


@pytest.mark.parametrize("before", range(8))
@pytest.mark.parametrize("meanwhile", range(3))
def test_a_release_during_a_move(
    server: Server, locks: Locks, held: Claim, before: int, meanwhile: int
) -> None:
    moving = extending(server, locks, 60).go_on(before)
    leaving = releasing(server, locks).go_on(meanwhile)
    moving.arrive()
    assert leaving.ends() == [DONE]
    moving.ends()
    assert not server.data.keys
    assert all(not session.claims for session in held.sessions)


def test_a_place_that_is_gone_is_a_loss(server: Server, locks: Locks, held: Claim) -> None:
    del server.data.keys[held.place]
    assert extending(server, locks, 4).ends() == [NOT_YOURS]
    assert extending(server, locks, 60).ends() == [NOT_YOURS]


def test_a_lease_moves_to_a_session_that_was_kept_alive_just_now(
    server: Server, locks: Locks, held: Claim
) -> None:
    """A renewal that was asked for later may have been answered before."""
    other = Exchange(server, locks.acquire(Acquire("gate", "ben", 5.0), 0.0)).ends()
    assert isinstance(other[0], Granted)
    moving = extending(server, locks, 5).go_on(2)
    server.clock.now = 3.0
    assert moving.ends() == [DONE]
    lease = server.data.keys[held.place].lease
    assert server.data.leases[lease].ends_at == 3.0 + 5


def test_sessions_that_the_servers_have_ended_are_forgotten(
    server: Server, locks: Locks, registry: Registry
) -> None:
    """Else a client with ever other ttls would revoke them all when it is closed."""
    for ttl in range(2, 50):
        acquire = Acquire("door", f"ann {ttl}", float(ttl))
        Exchange(server, locks.acquire(acquire, server.clock.now)).ends()
        release = [Release("door", f"ann {ttl}")]
        assert Exchange(server, locks.release(release, set())).ends() == [DONE]
    server.clock.now = 60.0
    acquire = Acquire("door", "ann", 4.0)
    assert isinstance(Exchange(server, locks.acquire(acquire, 60.0)).ends()[0], Granted)
    assert len(registry.take_all()) == 1


@pytest.mark.parametrize("before", range(6))
def test_a_client_that_was_stopped_as_it_got_the_lock_knows_its_fence(
    server: Server, locks: Locks, held: Claim, registry: Registry, before: int
) -> None:
    """Its place was in the session of waiters, which another thread finds ended by then."""
    server.clock.now = 3.0  # so that no session is given up
    acquire = Acquire("door", "ben", 30.0, queue=True)
    assert isinstance(Exchange(server, locks.acquire(acquire, 3.0)).ends()[0], Held)
    claim = registry.claims["ben"]
    waiting = claim.session
    assert releasing(server, locks).ends() == [DONE]
    getting = Exchange(server, locks.acquire(acquire, 3.0)).go_on(before)
    getting.arrive()
    server.clock.now = 9.5
    registry.ended(waiting)
    [answer] = getting.ends()
    assert isinstance(answer, Granted)
    assert answer.fence == server.data.keys[registry.claims["ben"].place].create_revision


def test_a_lock_that_is_handed_over_while_it_is_broken_is_broken(
    server: Server, locks: Locks, held: Claim
) -> None:
    """It was held all the time, so it must not count as free."""
    waiting = Acquire("door", "ben", 4.0, queue=True)
    assert isinstance(Exchange(server, locks.acquire(waiting, 0.0)).ends()[0], Held)
    breaking = Exchange(server, break_lock(Break("door"), [])).go_on()
    assert releasing(server, locks).ends() == [DONE]
    assert breaking.ends() == [DONE]
    assert not server.data.keys


def test_a_reader_that_waits_does_not_read_those_of_all_other_readers(
    server: Server, locks: Locks, held: Claim
) -> None:
    def join(holder: str) -> int:
        before = server.places_read
        reading = Acquire("door", holder, 4.0, queue=True, shares=0)
        assert isinstance(Exchange(server, locks.acquire(reading, 0.0)).ends()[0], Held)
        return server.places_read - before

    alone = join("ben")
    for number in range(10):
        assert join(f"cleo {number}") == alone
