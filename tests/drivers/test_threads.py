"""What is particular to the thread driver."""

import gc
import itertools
import logging
import os
import threading
import warnings
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from queue import SimpleQueue

import pytest

from holdfast import Client, Lease, LockError, LockLost, NotHeld
from holdfast.core import renewal
from holdfast.core.messages import Answer, HandedOver, Request
from holdfast.drivers.threads import Bell, _wait
from holdfast.events import InternalError
from tests.children import in_child
from tests.engines.redis.strikes import Strike
from tests.patience import wait_for


class Waiting:
    """A thread that waits for the lock `job`, and is known to."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._error: LockError | None = None
        self._thread = threading.Thread(target=self._wait)
        self._thread.start()
        wait_for(lambda: (info := client.inspect("job")) and info.waiters == 1)

    def _wait(self) -> None:
        try:
            self._client.lock("job").acquire()
        except LockError as error:
            self._error = error

    def error(self) -> LockError | None:
        self._thread.join()
        return self._error


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    name = f"drivers-{request.node.name}".replace("[", "-").strip("]")
    return f"memory://{name}" if request.param == "memory" else f"sqlite://{tmp_path}/locks.db"


class TestForks:
    def test_a_child_has_no_part_in_its_parents_lease(self, url: str) -> None:
        with Client(url) as client, client.lock("job", ttl=3.0) as lease:
            told: list[object] = []
            lease.on_lost(told.append)

            def child() -> None:
                assert not lease.held
                assert not lease.lost
                assert lease.remaining() == 0
                for call in (lease.release, lease.extend, lease.ensure_held):
                    with pytest.raises(NotHeld, match="forked"):
                        call()
                assert threading.active_count() == 1

            in_child(child)
            assert lease.held
            assert client.inspect("job") is not None
            assert not told

    def test_a_child_can_use_the_client_for_itself(self, tmp_path: Path) -> None:
        with Client(f"sqlite://{tmp_path}/locks.db") as client:
            with client.lock("parent"):

                def child() -> None:
                    assert client.lock("parent").acquire(timeout=0) is None
                    lease = client.lock("child").acquire(timeout=0)
                    assert lease is not None
                    assert f"/{os.getpid()}/" in lease.holder
                    client.close()

                in_child(child)
                assert client.inspect("child") is None
                info = client.inspect("parent")
                assert info is not None
            assert client.inspect("parent") is None

    def test_a_child_that_leaves_the_block_does_not_release(self, tmp_path: Path) -> None:
        with Client(f"sqlite://{tmp_path}/locks.db") as client:
            lock = client.lock("job")
            lease = lock.__enter__()
            in_child(lambda: lock.__exit__(None, None, None))
            assert lease.held
            assert client.inspect("job") is not None
            lock.__exit__(None, None, None)

    def test_a_child_that_closes_the_client_does_not_release(self, tmp_path: Path) -> None:
        with Client(f"sqlite://{tmp_path}/locks.db") as client, client.lock("job") as lease:
            in_child(client.close)
            assert client.inspect("job") is not None
            lease.extend()

    def test_no_connection_is_carried_into_a_child(self, tmp_path: Path) -> None:
        """SQLite would believe that the child has the file locks that only its parent has."""
        path = tmp_path / "locks.db"
        with Client(f"sqlite://{path}") as client, client.lock("job"):

            def child() -> None:
                links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
                opened = [os.readlink(link) for link in links if os.path.exists(link)]
                assert not [name for name in opened if name.startswith(str(path))]

            in_child(child)

    def test_a_child_keeps_no_dead_parents_bell_alive(self, tmp_path: Path) -> None:
        url = f"sqlite://{tmp_path}/locks.db"
        with Client(url) as client, Client(url) as other, other.lock("job"):
            waiting = Waiting(client)
            (bell,) = tmp_path.glob("*-bell-*")

            def child() -> None:
                links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
                opened = [os.readlink(link) for link in links if os.path.lexists(link)]
                assert str(bell) not in opened

            in_child(child)
            client.close()
            assert "closed" in str(waiting.error())


class TestHandOver:
    def test_a_waiter_has_what_is_handed_over_to_it(self, url: str) -> None:
        with Client(url) as other, other.lock("job"), Client(url) as client:
            taken: list[Lease | None] = []
            thread = threading.Thread(target=lambda: taken.append(client.lock("job").acquire()))
            thread.start()
            wait_for(lambda: (info := client.inspect("job")) and info.waiters == 1)
            [waiter_id] = client._driver._tickets
            client._driver._notify(waiter_id, HandedOver(99, 1))  # the second request had it wait
            thread.join()
            assert [lease.fence for lease in taken if lease] == [99]

    @pytest.mark.parametrize("words", [(None, HandedOver(9, 1)), (HandedOver(9, 1), None)])
    def test_several_rings_are_one_and_no_word_is_lost(
        self, words: tuple[HandedOver | None, ...]
    ) -> None:
        bell: Bell = SimpleQueue()
        for word in words:
            bell.put(word)
        assert _wait(bell, inf) == HandedOver(9, 1)
        assert bell.empty()


class TestClosing:
    def test_whoever_waits_is_sent_away_and_nothing_is_left(self, url: str) -> None:
        with Client(url) as other, other.lock("job"):
            client = Client(url)
            waiting = Waiting(client)
            client.close()
            assert "closed" in str(waiting.error())
            info = other.inspect("job")
            assert info is not None
            assert info.waiters == 0

    def test_held_leases_are_released(self, url: str) -> None:
        client = Client(url)
        leases = [client.lock(f"job{number}").acquire() for number in range(20)]
        client.close()
        client.close()
        assert not any(lease.held or lease.lost for lease in leases if lease)
        with Client(url) as other:
            assert list(other.leases()) == []
        with pytest.raises(LockError, match="closed"):
            client.lock("job0").acquire()

    def test_from_within_a_callback(self, url: str) -> None:
        client = Client(url)
        lease = client.lock("job", ttl=0.5, renew=False).acquire()
        assert lease is not None
        lease.on_lost(lambda lost: client.close())
        wait_for(lambda: client.closed)
        wait_for(lambda: not [t for t in threading.enumerate() if t.name == "holdfast-renewer"])

    def test_a_forgotten_client_warns_and_its_thread_ends(self, url: str) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            client = Client(url)
            client.lock("job").acquire()
            del client
            gc.collect()
        assert {w.category for w in caught} == {ResourceWarning}
        assert any("without being closed" in str(w.message) for w in caught)
        wait_for(lambda: not [t for t in threading.enumerate() if t.name == "holdfast-renewer"])

    def test_a_client_lives_as_long_as_its_leases(self) -> None:
        lease = Client("memory://keeps").lock("job", ttl=3.0).acquire()
        assert lease is not None
        gc.collect()
        before = lease._tenure.valid_until
        wait_for(lambda: lease._tenure.valid_until > before)  # it is renewed
        lease._driver.close()


def test_what_a_callback_raises_keeps_nobody_else_from_being_told(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []

    def bad(lease: object) -> None:
        raise ZeroDivisionError

    with Client(url) as client:
        found = (client.lock(name, ttl=0.5, renew=False).acquire() for name in "ab")
        leases = [lease for lease in found if lease is not None]
        for lease in leases:
            lease.on_lost(bad)
            lease.on_lost(lambda lost: told.append(lost.name))
        with caplog.at_level(logging.ERROR, "holdfast"):
            wait_for(lambda: sorted(told) == ["a", "b"])
        assert "ZeroDivisionError" in caplog.text
        with pytest.raises(LockLost):
            leases[0].release()


def test_a_ctrl_c_that_strikes_an_event_of_an_engine_is_a_ctrl_c() -> None:
    """Its lock is not taken again then, and cannot be let go of: a RuntimeError in its place."""
    with Client("memory://") as client:
        store, never = client._driver._store, threading.Event()
        ask = store.ask

        def ask_and_wait(requests: Sequence[Request], until: float) -> Sequence[Answer]:
            never.wait(0.001)
            return ask(requests, until)

        store.ask = ask_and_wait  # type: ignore[method-assign]
        strike = Strike(0, ("/threading.py",), functions=("_acquire_restore",))
        with pytest.raises(KeyboardInterrupt), strike:
            client.lock("job").acquire()
        assert strike.struck
        with client.lock("job", timeout=0):
            pass


def test_an_error_after_a_ctrl_c_is_an_error() -> None:
    with Client("memory://") as client:

        def fail(requests: Sequence[Request], until: float) -> Sequence[Answer]:
            raise RuntimeError("out of order")

        client._driver._store.ask = fail  # type: ignore[method-assign]
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            with pytest.raises(RuntimeError, match="out of order"):
                client.inspect("job")


def test_a_renewer_that_fails_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[object] = []
    real = renewal._renew
    failures = iter([True])

    def fail_once(*args: object) -> object:
        if next(failures, False):
            raise ZeroDivisionError
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(renewal, "_renew", fail_once)
    with Client("memory://restarts") as client:
        client._driver.runtime.emit = events.append
        first = client.lock("first", ttl=3.0).acquire()
        wait_for(lambda: len(events) == 1)
        assert isinstance(events[0], InternalError)
        with client.lock("second", ttl=3.0) as second:
            before = second._tenure.valid_until
            wait_for(lambda: second._tenure.valid_until > before)
        assert first is not None


@pytest.mark.slow
def test_ten_thousand_leases_cost_one_thread() -> None:
    with Client("memory://many") as client:
        before = threading.active_count()
        leases = [client.lock(f"job{number}", ttl=10.0).acquire() for number in range(10_000)]
        ends = [lease._tenure.valid_until for lease in leases if lease]
        wait_for(
            lambda: all(
                lease._tenure.valid_until > end
                for lease, end in zip(leases, ends, strict=True)
                if lease
            )
        )
        assert threading.active_count() == before + 1
        assert all(lease.held for lease in leases if lease)


def test_a_dead_threads_number_means_nothing() -> None:
    """The kernel uses thread numbers again; a new thread must not re-enter a dead one's lease."""
    with Client("memory://idents") as client:
        lock = client.lock("job", reentrant=True)
        client._driver._wake_renewer()  # else it may be the one that gets the number
        wait_for(lambda: "holdfast-renewer" in [each.name for each in threading.enumerate()])
        kept: list[object] = []
        first = threading.Thread(target=lambda: kept.append(lock.acquire()))
        first.start()
        first.join()
        ident = first.ident
        del first
        for _ in range(100):
            taken: list[object] = []
            again = threading.Thread(target=lambda t=taken: t.append(lock.acquire(timeout=0)))
            again.start()
            again.join()
            assert taken == [None]
            if again.ident == ident:
                return
        pytest.fail("no thread got the same number again, so nothing was tested")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, TimeoutError])
def test_wherever_an_acquire_is_struck_nothing_is_held(
    url: str, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody has the lease then, and nobody could give it back. And the client can be closed."""
    ours = ("holdfast/lock.py", "drivers/threads.py", "core/ledger.py", "core/acquire.py")
    steps = ("acquire", "_acquire", "_take", "run", "_drive", "_took", "add")
    closed: list[None] = []
    with Client(url) as client:
        store, close = client._driver._store, client._driver._store.close
        store.close = lambda: closed.append(close())  # type: ignore[method-assign]
        lock = client.lock("job")
        for line in itertools.count():
            strike = Strike(line, ours, error, functions=steps)
            lease = None
            with suppress(error), strike:
                lease = lock.acquire()
            if not strike.struck:
                break
            assert lease is None
            assert client.inspect("job") is None, f"struck at line {line}"
        assert lease is not None
        lease.release()
        assert line > 30
        assert caplog.text == "", "nothing was lost"
    assert closed == [None]


@pytest.mark.timeout(60)
def test_a_signal_handler_closes_while_its_thread_has_the_mutex(url: str) -> None:
    """As within `lease.held`: whoever closes in its place would wait for it."""
    with Client(url) as other:
        client = Client(url)
        lease = client.lock("job").acquire()
        assert lease is not None
        with client._driver.runtime.mutex:
            client.close()
        assert not lease.held
        assert other.inspect("job") is None


@pytest.mark.timeout(60)
def test_a_signal_handler_closes_in_the_middle_of_an_acquire(url: str) -> None:
    with Client(url) as other:
        client = Client(url)
        first = client.lock("first").acquire()
        store = client._driver._store
        closed: list[None] = []
        ask, close = store.ask, store.close

        def ask_and_close(requests: Sequence[Request], until: float) -> Sequence[Answer]:
            answers = ask(requests, until)
            if not client.closed:
                client.close()
                assert other.inspect("first") is None, "what it had was given back at once"
            return answers

        store.ask = ask_and_close  # type: ignore[method-assign]
        store.close = lambda: closed.append(close())  # type: ignore[method-assign]
        lease = client.lock("job").acquire()
        assert other.inspect("job") is None
        for each in (first, lease):
            assert each is not None
            assert not each.held
        assert closed == [None], "when that was over"
