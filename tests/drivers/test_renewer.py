"""The renewer at its worst moments: with leases in hand, cancelled, or killed by a callback."""

import _thread
import asyncio
import contextlib
import itertools
import os
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast import AsyncClient, Client, NotHeld
from holdfast.core.messages import Extend
from tests.children import in_child
from tests.engines.redis.strikes import Strike
from tests.patience import wait_for


class Slow:
    """Keeps the renewer inside a renewal until it is let go."""

    def __init__(self, client: Client) -> None:
        self.inside, self.go_on = threading.Event(), threading.Event()
        self._ask = client._driver._store.ask
        client._driver._store.ask = self.ask  # type: ignore[method-assign]

    def ask(self, requests: Sequence[Any], until: float) -> Sequence[Any]:
        if isinstance(requests[0], Extend):
            self.inside.set()
            self.go_on.wait(10)
        return self._ask(requests, until)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with Client(f"sqlite://{tmp_path}/locks.db") as made:
        yield made


def test_a_lease_in_the_renewers_hand_is_not_the_childs(client: Client) -> None:
    slow = Slow(client)
    lease = client.lock("job", ttl=6.0).acquire()
    assert lease is not None
    slow.inside.wait(10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that we have threads: so we must
        child = os.fork()
    if child == 0:
        try:
            lease.release()
        except NotHeld:
            os._exit(0 if not lease.held else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    slow.go_on.set()
    lease.extend()
    lease.release()


def test_a_ctrl_c_as_the_renewer_starts_is_nothing_but_a_ctrl_c(tmp_path: Path) -> None:
    """A `Thread` that is struck while it waits to have started raises a RuntimeError, or worse."""
    files, functions = ("/threading.py", "/threads.py"), ("_acquire_restore", "_wake_renewer")
    for line in itertools.count():
        with Client(f"sqlite://{tmp_path}/locks.db") as client:
            strike = Strike(line, files, functions=functions)
            with contextlib.suppress(KeyboardInterrupt), strike, client.lock("job", ttl=6.0):
                pass
            if not strike.struck:
                break
            with client.lock("job", ttl=6.0, timeout=10):  # it was given back
                wait_for(client._driver._renewing.locked)
    assert line > 1


def test_a_signal_handler_may_take_the_first_lock_while_a_thread_is_started(client: Client) -> None:
    with threading._active_limbo_lock:  # type: ignore[attr-defined]  # as `Thread.start` does
        lease = client.lock("job").acquire()
    wait_for(client._driver._renewing.locked)
    assert lease is not None
    lease.release()


@pytest.mark.parametrize("renewer_first", [True, False])
def test_a_client_that_is_dropped_as_its_renewer_starts_closes_its_store_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renewer_first: bool
) -> None:
    driver = Client(f"sqlite://{tmp_path}/locks.db")._driver  # whose client is gone, unused
    closed, store = threading.Semaphore(0), driver._store
    monkeypatch.setattr(store, "close", closed.release)
    if renewer_first:
        assert driver._renewing.acquire(blocking=False)
    driver.abandon()
    if renewer_first:
        driver._renew()
    else:
        driver._start_renewer()  # which comes too late
    assert closed.acquire(blocking=False)
    assert not closed.acquire(timeout=0.05)


def test_a_renewer_whose_callback_forks_ends_well_in_the_child(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fork(runtime: object) -> Iterator[None]:
        client._driver.forked()
        client._driver.closed = True
        yield from ()

    def live_on() -> None:
        assert client._driver._renewing.acquire(blocking=False)
        client._driver._renew()
        assert client._driver._renewing.acquire(blocking=False), "it is the parent's that it ended"

    monkeypatch.setattr("holdfast.drivers.threads.renew_for_ever", fork)
    in_child(live_on)


def test_there_is_one_renewer_however_often_it_is_roused(client: Client) -> None:
    renewers: list[int] = []
    renew = client._driver._renew

    def count_and_renew() -> None:
        renewers.append(threading.get_ident())
        renew()

    client._driver._renew = count_and_renew  # type: ignore[method-assign]
    for _ in range(50):
        client._driver._wake_renewer()
    wait_for(lambda: renewers)
    client._driver._wake_renewer()
    assert len(renewers) == 1


def test_closing_gives_back_what_is_in_the_renewers_hand(tmp_path: Path) -> None:
    client = Client(f"sqlite://{tmp_path}/locks.db")
    slow = Slow(client)
    lease = client.lock("job", ttl=6.0).acquire()
    assert lease is not None
    slow.inside.wait(10)
    slow.go_on.set()
    client.close()
    assert not lease.held
    with Client(f"sqlite://{tmp_path}/locks.db") as other:
        assert other.inspect("job") is None


def test_a_callback_that_exits_ends_only_itself(client: Client) -> None:
    kept = client.lock("kept", ttl=3.0).acquire()
    short = client.lock("short", ttl=0.5, renew=False).acquire()
    assert kept is not None
    assert short is not None
    short.on_lost(lambda lease: sys.exit(3))
    wait_for(lambda: short._tenure.state.value == "lost")
    before = kept._tenure.valid_until
    wait_for(lambda: kept._tenure.valid_until > before)
    kept.release()


def test_a_thread_that_cannot_start_is_tried_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(_thread, "start_new_thread", refuse)
        with pytest.raises(RuntimeError):
            client.lock("job").acquire()
    assert client.inspect("job") is None, "what was granted is given back"
    with client.lock("job", ttl=3.0) as lease:
        before = lease._tenure.valid_until
        wait_for(lambda: lease._tenure.valid_until > before)


def test_one_thread_will_do_where_a_second_cannot_start(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with client.lock("job", ttl=3.0) as lease:
        before = lease._tenure.valid_until
        wait_for(lambda: lease._tenure.valid_until > before)
    monkeypatch.undo()
    client.close()
    assert not client._driver._renewer


def test_a_renewer_that_was_cancelled_while_idle_starts_with_the_next_lease() -> None:
    async def main() -> None:
        async with AsyncClient("memory://idle-renewer") as client:
            async with client.lock("first", ttl=3.0):
                await asyncio.sleep(0.01)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.sleep(0.01)
            async with client.lock("second", ttl=3.0) as lease:
                before = lease._tenure.valid_until
                for _ in range(2000):
                    if lease._tenure.valid_until > before:
                        return
                    await asyncio.sleep(0.005)
                pytest.fail("it was not renewed")

    asyncio.run(main())


def test_a_loop_that_ends_with_a_client_open_gets_no_new_task(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def main() -> AsyncClient:
        client = AsyncClient("memory://open-at-the-end")
        kept.append(await client.lock("job").acquire())
        await asyncio.sleep(0.01)
        return client

    kept: list[object] = []
    client = asyncio.run(main())
    assert "destroyed" not in capfd.readouterr().err
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        kept.clear()
        del client
