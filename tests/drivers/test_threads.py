"""What is particular to the thread driver: closing, interruptions, waiting, dropped things."""

import gc
import itertools
import logging
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from inspect import CO_GENERATOR
from types import FrameType
from typing import Any

import pytest

from holdfast import (
    Client,
    ClientClosed,
    EngineUnavailable,
    Lease,
    LeaseAll,
    Lock,
    LockAll,
    LockError,
    LockLost,
    NotHeld,
)
from holdfast.core.effects import Sleep, Steps
from holdfast.core.messages import Acquire, Extend, Read, Release, Request
from holdfast.core.ownership import Blocks
from holdfast.drivers.common import call_back, log
from holdfast.drivers.threads import LOOK_EVERY
from tests.contract.interrupting import Interruption as AtLine
from tests.drivers.line import Line, Raise, Stop, go_on
from tests.patience import wait_for

PLACES = [("before", Acquire), ("after", Acquire), ("before", Release), ("after", Release)]


class Background:
    """Something that runs in a thread; what it returned or raised is kept."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self.result: object = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.result = self._work()
        except BaseException as error:
            self.error = error

    def join(self) -> "Background":
        self.thread.join(60)
        assert not self.thread.is_alive()
        return self


class Interrupt:
    """A Ctrl-C at the nth call of a function of holdfast, in this thread."""

    def __init__(self, calls: int) -> None:
        self._calls = calls
        self._before = sys.gettrace()

    def arm(self) -> None:
        sys.settrace(self._trace)

    def disarm(self) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, argument: object) -> None:
        ours = frame.f_globals.get("__name__", "").startswith("holdfast.")
        if _is_finalizer(frame):
            return  # Python swallows what is raised there
        if ours and not frame.f_code.co_flags & CO_GENERATOR:  # one may be called to be cleared
            self._calls -= 1
            if not self._calls:
                raise KeyboardInterrupt


class Signalled:
    """A mutex: when this thread releases it first, there is a Ctrl-C. (The client's own threads
    release it, too.)"""

    def __init__(self, mutex: Any) -> None:
        self._mutex = mutex
        self._victim: int | None = threading.get_ident()

    def __enter__(self) -> None:
        self._mutex.__enter__()

    def __exit__(self, *_: object) -> None:
        self._mutex.release()
        if self._victim == threading.get_ident():
            self._victim = None
            raise KeyboardInterrupt


def _is_finalizer(frame: FrameType) -> bool:
    return frame.f_code.co_name == "__del__" or (
        frame.f_back is not None and _is_finalizer(frame.f_back)
    )


SEVERAL = ["with several", "with or_skip", "with once"]


def blocks(client: Client, lock: Lock, several: LockAll) -> dict[str, Any]:
    """What can be entered, by the name of the way."""
    once = client.once("job", every=1e-6)
    kinds = lock, several, lock.or_skip, once
    return dict(zip(["with the lock", *SEVERAL], kinds, strict=True))


def interrupted_everywhere(work: Callable[[Interrupt], None], other: Client, first: int) -> int:
    """Interrupt it at each call, from the first on; each time all must be released. How many calls
    it has."""
    for calls in itertools.count(first):
        interrupt = Interrupt(calls)
        try:
            work(interrupt)
        except KeyboardInterrupt:
            interrupt.disarm()
            wait_for(lambda: not list(other.leases()))
        else:
            return calls
        finally:
            interrupt.disarm()
    raise AssertionError


@pytest.fixture
def client(line: Line) -> Iterator[Client]:
    with Client(line.url) as made:
        yield made


@pytest.fixture
def other(line: Line) -> Iterator[Client]:
    with Client(line.url) as made:
        yield made


def take(lock: Lock) -> Lease:
    lease = lock.acquire()
    assert lease is not None
    return lease


def waiters(client: Client) -> int:
    info = client.inspect("job")
    return (info.waiters or 0) if info else 0


def our_threads() -> set[threading.Thread]:
    """Those of holdfast; of other tests' clients, too, which may be about to end."""
    return {each for each in threading.enumerate() if each.name.startswith("holdfast-")}


class TestClosing:
    def test_a_grant_that_is_on_its_way_is_not_taken_and_released(
        self, line: Line, client: Client, other: Client
    ) -> None:
        line.after = stop = Stop(Acquire)
        taking = Background(client.lock("job").acquire)
        assert stop.reached.wait(60)
        closing = Background(client.close)
        wait_for(lambda: client.closed)
        stop.go_on.set()
        assert isinstance(taking.join().error, ClientClosed)
        closing.join()
        assert other.inspect("job") is None

    def test_a_waiter_that_pauses_because_the_engine_fails_is_sent_away(
        self, line: Line, client: Client
    ) -> None:
        line.down = True
        asked = threading.Event()
        line.before = lambda request: asked.set()
        waiting = Background(client.lock("job", timeout=60).acquire)
        assert asked.wait(60)
        client.close()
        assert isinstance(waiting.join().error, ClientClosed)

    def test_it_gives_up_on_a_request_that_does_not_end(
        self, line: Line, client: Client, other: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("holdfast.drivers.threads.CLOSE_TIMEOUT", 0.3)
        held = take(client.lock("held"))
        line.before = stop = Stop(Acquire)
        asking = Background(client.lock("job").acquire)
        assert stop.reached.wait(60)
        closing = Background(client.close)
        wait_for(lambda: other.inspect("held") is None)
        closing.join()
        assert held.lost
        stop.go_on.set()
        assert isinstance(asking.join().error, ClientClosed)

    def test_a_second_close_waits_for_the_first(
        self, line: Line, client: Client, other: Client
    ) -> None:
        lease = client.lock("job").acquire()
        line.before = stop = Stop(Release)
        first = Background(client.close)
        assert stop.reached.wait(60)
        second = Background(client.close)
        second.thread.join(0.1)
        assert second.thread.is_alive()
        stop.go_on.set()
        second.join()
        assert other.inspect("job") is None
        assert line.closed == 1
        first.join()
        assert lease is not None

    def test_a_signal_handler_may_close_in_the_middle_of_an_acquire(
        self, line: Line, client: Client, other: Client
    ) -> None:
        held = client.lock("held").acquire()
        assert held is not None

        def handler(request: Request) -> None:
            if isinstance(request, Acquire):
                line.after = go_on
                client.close()

        line.after = handler
        with pytest.raises(ClientClosed):
            client.lock("job").acquire()
        client.close()
        assert held.lost
        assert list(other.leases()) == []
        assert line.closed == 1

    def test_a_signal_handler_may_close_while_its_thread_has_the_mutex(
        self, client: Client, other: Client
    ) -> None:
        """As in the middle of `Lease.release`: the renewer, which closes, needs the mutex too."""
        lease = client.lock("job").acquire()
        assert lease is not None
        returned = threading.Event()

        def work() -> None:
            with client._driver.runtime.mutex:
                client.close()
                returned.set()

        Background(work)
        assert returned.wait(10)
        wait_for(lambda: other.inspect("job") is None)
        assert lease.lost

    @pytest.mark.parametrize("renew", [False, True])
    def test_where_no_thread_can_be_had_any_more(
        self, line: Line, other: Client, renew: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As in a function that `atexit` calls, since Python 3.12."""
        client = Client(line.url)
        lease = client.lock("job", renew=renew).acquire()
        assert lease is not None
        told: list[Lease] = []
        lease.on_lost(told.append)

        def is_slow(request: Request) -> None:
            threading.Event().wait(2.5 * LOOK_EVERY)  # so that closing looks after it

        def refuse(thread: threading.Thread) -> None:
            raise RuntimeError("can't create new thread at interpreter shutdown")

        line.before = is_slow
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            client.close()
        line.before = go_on
        assert told == [lease]
        assert other.inspect("job") is None

    def test_a_callback_may_close(self, client: Client) -> None:
        lease = client.lock("job", ttl=0.05, renew=False).acquire(timeout=60)
        assert lease is not None
        closed = threading.Event()

        def close(lost: Lease) -> None:
            client.close()
            closed.set()

        lease.on_lost(close)
        assert closed.wait(60)

    def test_with_an_engine_that_is_down_it_says_what_is_left(
        self, line: Line, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        lease = client.lock("job").acquire()
        assert lease is not None
        line.down = True
        client.close()
        assert lease.lost
        log.wait(30)
        assert "closed before 'holdfast:job' were released" in caplog.text
        assert line.closed == 1

    def test_an_operation_that_opened_nothing_leaves_nothing_to_say(
        self, line: Line, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        with client.lock("job", timeout=0), suppress(LockError), client.lock("job", timeout=0):
            pytest.fail("entered twice")
        client.close()
        assert len(line.asked(Release)) == 1, "the second one had nothing to release"
        log.wait(30)
        assert caplog.text == ""

    def test_a_forgotten_client_warns_and_its_threads_end(self, line: Line) -> None:
        before = our_threads()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            client = Client(line.url)
            with client.lock("job"):
                wait_for(lambda: len(our_threads() - before) == 2)
            del client
            gc.collect()
        assert any("without being closed" in str(warning.message) for warning in caught)
        wait_for(lambda: our_threads() <= before)
        wait_for(lambda: line.closed == 1)

    def test_a_client_lives_as_long_as_its_leases(self, line: Line) -> None:
        lease = Client(line.url).lock("job", ttl=2.0).acquire()
        gc.collect()
        wait_for(lambda: line.asked(Extend))
        assert lease is not None
        lease._driver.close()


class TestInterruptions:
    """A Ctrl-C leaves a release behind that the renewer then delivers."""

    @pytest.mark.parametrize(("when", "kind"), PLACES)
    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ZeroDivisionError])
    def test_in_a_request(
        self,
        line: Line,
        client: Client,
        other: Client,
        when: str,
        kind: type[Request],
        error: type[BaseException],
    ) -> None:
        hook = Raise(kind, error())
        setattr(line, when, hook)
        lock = client.lock("job")
        with pytest.raises(error), lock:
            pass
        assert hook.raised
        wait_for(lambda: other.inspect("job") is None)
        with pytest.raises(NotHeld):
            lock.release()
        with client.lock("job", timeout=10):
            pass

    @pytest.mark.parametrize("renew", [False, True])
    @pytest.mark.parametrize(
        "way", ["with the lock", "with a lease", "release", *SEVERAL, "release several"]
    )
    def test_anywhere_in_a_release(
        self, client: Client, other: Client, way: str, renew: bool
    ) -> None:
        """But for the very first instant, which is before Python knows of the call."""
        lock = client.lock("job", renew=renew)
        several = client.lock_all(["gate", "job"], renew=renew)
        entering = blocks(client, lock, several)

        def work(interrupt: Interrupt) -> None:
            lease: Lease | LeaseAll | None
            if way in entering:
                with entering[way] as lease:
                    interrupt.arm()
            elif way == "release several":
                lease = several.acquire()
                assert lease is not None
                interrupt.arm()
                lease.release()
            elif way == "with a lease":
                lease = take(lock)
                with lease:
                    interrupt.arm()
            else:
                lease = take(lock)
                interrupt.arm()
                lease.release()
            interrupt.disarm()
            assert lease is not None
            assert not lease.held

        first = 3 if way == "release several" else 2
        assert interrupted_everywhere(work, other, first) > 10
        if way in SEVERAL:
            assert not entering[way]._blocks._open, "blocks that were left"

    @pytest.mark.parametrize("way", ["with the lock", *SEVERAL])
    def test_anywhere_on_the_way_into_a_block(
        self, client: Client, other: Client, way: str
    ) -> None:
        entering = blocks(client, client.lock("job"), client.lock_all(["gate", "job"]))[way]

        def work(interrupt: Interrupt) -> None:
            interrupt.arm()
            with entering:
                interrupt.disarm()

        assert interrupted_everywhere(work, other, 2) > 10

    @pytest.mark.parametrize("way", ["with the lock", "with or_skip"])
    def test_anywhere_on_the_way_into_an_inner_block(
        self, client: Client, other: Client, way: str
    ) -> None:
        lock = client.lock("job", reentrant=True)
        inner = blocks(client, lock, client.lock_all(["gate"]))[way]

        def work(interrupt: Interrupt) -> None:
            with lock:
                interrupt.arm()
                with inner:
                    interrupt.disarm()

        assert interrupted_everywhere(work, other, 2) > 5

    def test_as_an_inner_block_is_counted(self, client: Client, other: Client) -> None:
        """The fault: the outer block did not release the lock."""
        lock, runtime = client.lock("job", reentrant=True), client._driver.runtime
        mutex = runtime.mutex

        def work() -> None:
            with lock:
                runtime.mutex = Signalled(mutex)
                with lock:
                    pass

        try:
            with pytest.raises(KeyboardInterrupt):
                work()
        finally:
            runtime.mutex = mutex
        assert other.inspect("job") is None

    def test_an_inner_block_that_was_not_entered_is_not_open(
        self, client: Client, other: Client
    ) -> None:
        lock = client.lock("job", reentrant=True)
        for line in itertools.count():
            interruption = AtLine(line, ("holdfast/lock.py",), functions=("_reenter",))
            with lock, suppress(KeyboardInterrupt), interruption, lock:
                pass
            assert other.inspect("job") is None
            assert not lock._blocks._open
            if not interruption.happened:
                break
        assert line > 5

    @pytest.mark.parametrize("names", [["job"], ["gate", "job"]])
    def test_as_a_block_is_entered(
        self, client: Client, monkeypatch: pytest.MonkeyPatch, names: list[str]
    ) -> None:
        """The fault: the block counted as open, so that another could not be told from it."""
        lock: Any = client.lock_all(names) if len(names) > 1 else client.lock(names[0])
        enter = lock._blocks.enter

        def signalled(*block: Any) -> None:
            enter(*block)
            raise KeyboardInterrupt

        monkeypatch.setattr(Blocks, "enter", lambda _, *block: signalled(*block))
        with pytest.raises(KeyboardInterrupt), lock:
            pass
        with pytest.raises(NotHeld):
            lock.__exit__(None, None, None)

    @pytest.mark.parametrize("way", ["with the lock", "with or_skip"])
    def test_anywhere_on_the_way_out_of_an_inner_block(
        self, client: Client, other: Client, way: str
    ) -> None:
        lock = client.lock("job", reentrant=True)
        inner = blocks(client, lock, client.lock_all(["gate"]))[way]

        def work(interrupt: Interrupt) -> None:
            with lock as lease:
                try:
                    with inner:
                        interrupt.arm()
                finally:
                    interrupt.disarm()
                    assert lease.held, "the outer block goes on"

        assert interrupted_everywhere(work, other, 2) > 3

    @pytest.mark.parametrize("way", ["with the lock", "with or_skip"])
    def test_anywhere_on_the_way_out_of_a_block_that_took_it_again(
        self, client: Client, other: Client, way: str
    ) -> None:
        """The fault: `or_skip` did not count it, so that the last release did not release it."""
        lock = client.lock("job", reentrant=True)
        entering = blocks(client, lock, client.lock_all(["gate"]))[way]

        def work(interrupt: Interrupt) -> None:
            try:
                with entering:
                    take(lock)
                    interrupt.arm()
            finally:
                interrupt.disarm()
                lock.release()

        assert interrupted_everywhere(work, other, 2) > 3

    def test_anywhere_in_the_release_of_a_lock(self, client: Client, other: Client) -> None:
        """The fault: before it knew the lease, the lock was kept, and renewed for ever."""
        lock = client.lock("job")

        def work(interrupt: Interrupt) -> None:
            take(lock)
            interrupt.arm()
            lock.release()

        assert interrupted_everywhere(work, other, 2) > 10

    @pytest.mark.parametrize("way", ["release", "with the lock", *SEVERAL])
    def test_anywhere_in_a_release_of_nothing(
        self, client: Client, other: Client, way: str
    ) -> None:
        """The fault: `NotHeld` was raised in place of the Ctrl-C."""
        lock = client.lock("job")
        entering = blocks(client, lock, client.lock_all(["gate", "job"]))

        def work(interrupt: Interrupt) -> None:
            interrupt.arm()
            with suppress(NotHeld):
                if way == "release":
                    lock.release()
                else:
                    entering[way].__exit__(None, None, None)

        assert interrupted_everywhere(work, other, 2) > 4

    def test_anywhere_in_a_release_of_what_was_taken_twice(
        self, client: Client, other: Client
    ) -> None:
        """The fault: it was not counted, or released although an outer block had it."""
        lock = client.lock("job", reentrant=True)

        def work(interrupt: Interrupt) -> None:
            lease = take(lock)
            try:
                take(lock)
                try:
                    interrupt.arm()
                    lock.release()
                finally:
                    interrupt.disarm()
                    assert lease.held
            finally:
                lock.release()

        assert interrupted_everywhere(work, other, 2) > 5

    def test_anywhere_on_the_way_out_of_a_block_that_waited(
        self, client: Client, other: Client
    ) -> None:
        """The fault: the lease that the block was entered with was released once more, and not the
        one that it had taken since."""
        condition: Any = threading.Condition(client.lock("job"))  # type: ignore[arg-type]

        def work(interrupt: Interrupt) -> None:
            with condition:
                condition.wait(0)
                interrupt.arm()

        assert interrupted_everywhere(work, other, 2) > 10

    def test_anywhere_on_the_way_into_the_block_of_a_lease(
        self, client: Client, other: Client
    ) -> None:
        lock = client.lock("job")

        def work(interrupt: Interrupt) -> None:
            entering = take(lock)
            interrupt.arm()
            with entering:
                interrupt.disarm()

        assert interrupted_everywhere(work, other, 2) > 2

    @pytest.mark.parametrize("interrupted", ["the waiter", "another thread"])
    def test_of_a_waiter(self, client: Client, other: Client, interrupted: str) -> None:
        """A signal to another thread, or an instant before this one blocks, does not wake it: it
        must look by itself."""

        def handler(number: int, frame: object) -> None:
            raise KeyboardInterrupt

        def interrupt() -> None:
            wait_for(lambda: waiters(other) == 1)
            thread = threading.main_thread() if interrupted == "the waiter" else interrupting.thread
            signal.pthread_kill(thread.ident or 0, signal.SIGUSR1)
            try:
                wait_for(lambda: waiters(other) == 0)
            finally:
                held.release()

        before = signal.signal(signal.SIGUSR1, handler)
        try:
            held = take(other.lock("job", ttl=600))
            interrupting = Background(interrupt)
            with pytest.raises(KeyboardInterrupt):
                client.lock("job").acquire()
            assert interrupting.join().error is None
        finally:
            signal.signal(signal.SIGUSR1, before)

    def test_after_an_interruption_the_release_is_delivered_before_the_caller_goes_on(
        self, line: Line, client: Client
    ) -> None:
        """So a program that ends then leaves nothing behind."""
        line.after = Raise(Acquire, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            client.lock("job").acquire()
        assert line.asked(Release)


class TestAnUndeliveredRelease:
    @pytest.mark.parametrize("renew", [True, False])
    def test_it_is_delivered_when_the_engine_answers_again(
        self, line: Line, client: Client, other: Client, renew: bool
    ) -> None:
        lease = client.lock("job", renew=renew).acquire()
        assert lease is not None
        line.down = True
        with pytest.raises(EngineUnavailable, match="retrying in the background"):
            lease.release()
        assert not lease.held
        assert not lease.lost
        line.down = False
        wait_for(lambda: other.inspect("job") is None)

    def test_a_second_release_is_refused(self, line: Line, client: Client, other: Client) -> None:
        lease = client.lock("job").acquire()
        assert lease is not None
        line.down = True
        for error in (EngineUnavailable, NotHeld):
            with pytest.raises(error):
                lease.release()
        line.down = False
        wait_for(lambda: other.inspect("job") is None)

    def test_of_a_with_too(self, line: Line, client: Client, other: Client) -> None:
        with pytest.raises(EngineUnavailable), client.lock("job"):
            line.down = True
        line.down = False
        wait_for(lambda: other.inspect("job") is None)


def test_a_lease_that_is_dropped_when_its_time_is_over_is_released(
    line: Line, client: Client
) -> None:
    """The fault: dropped before the watcher had seen its end, it was forgotten: where leases share
    a session, the lock was held for as long as the client lived."""
    lease = client.lock("job", ttl=0.05, renew=False).acquire()
    assert lease is not None
    with client._driver.runtime.mutex:  # the watcher waits for it
        wait_for(lambda: client.inspect("job") is None)
        del lease
    wait_for(lambda: line.asked(Release))


def test_a_signal_handler_may_sleep_as_a_sleep_begins(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = client._driver
    wait, handled = driver._wait, False

    def sleep() -> Steps[None]:
        yield Sleep(driver.runtime.clock() + 0.001)

    def interrupted(waiter_id: str, until: float) -> bool:
        nonlocal handled
        if not handled:
            handled = True
            driver.run(sleep())
        return wait(waiter_id, until)

    monkeypatch.setattr(driver, "_wait", interrupted)
    driver.run(sleep())


def test_a_wake_up_that_comes_before_the_wait_is_not_lost(
    line: Line, client: Client, other: Client
) -> None:
    """The lock is released between the answer that it is held, and the wait for it."""
    held = other.lock("job", ttl=600).acquire()
    assert held is not None

    def release(request: Request) -> None:
        if isinstance(request, Acquire) and request.queue:
            line.after = go_on
            held.release()

    line.after = release
    lock = client.lock("job", timeout=60)
    taking = Background(lock.acquire)
    wait_for(lambda: taking.result is not None)
    taking.join()
    lock.release()


def test_all_waiters_are_notified_and_what_sleeps_goes_on(
    line: Line, client: Client, other: Client
) -> None:
    """An engine whose wake-ups may have been missed has all waiters ask again. A pause after a
    failure is kept: else each failure would be followed by the next one."""
    driver, slept = client._driver, list[str]()
    held = other.lock("job", ttl=600).acquire()
    assert held is not None
    theirs = held.holder

    def sleep() -> Steps[None]:
        yield Sleep(driver.runtime.clock() + 600)
        slept.append("slept")

    def asked() -> int:
        return len([each for each in line.asked(Acquire) if each.holder != theirs])

    callers = [Background(lambda: driver.run(sleep())), Background(client.lock("job").acquire)]
    wait_for(lambda: asked() and len(driver._notifications) >= 2)
    before = asked()
    driver._notify_all()
    wait_for(lambda: asked() > before)
    client.close()
    for caller in callers:
        caller.join()
    assert not slept
    held.release()


class TestADroppedLease:
    def test_it_says_so_and_is_not_renewed_any_more(
        self, line: Line, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        with pytest.warns(ResourceWarning), caplog.at_level(logging.WARNING, "holdfast"):
            client.lock("job", ttl=0.3).acquire(blocking=False)
        log.wait(30)
        assert "the lease on 'job' (fence 1) was dropped without being released" in caplog.text
        wait_for(lambda: client.inspect("job") is None)

    def test_also_while_it_is_being_renewed(self, line: Line, client: Client) -> None:
        line.before = stop = Stop(Extend)
        lease = client.lock("job", ttl=0.6).acquire()
        assert lease is not None
        assert stop.reached.wait(60)
        with pytest.warns(ResourceWarning):
            del lease  # the last reference
        stop.go_on.set()
        wait_for(lambda: client.inspect("job") is None)


def test_a_reentrant_lock_that_was_taken_again_in_a_block_outlives_the_block(
    client: Client,
) -> None:
    lock = client.lock("job", reentrant=True)
    with lock:
        lock.acquire()
    assert lock.locked()
    lock.release()
    assert not lock.locked()


@pytest.mark.parametrize("way", SEVERAL[:2])
def test_a_block_that_is_left_on_another_thread_is_released(
    client: Client, other: Client, way: str
) -> None:
    """As web frameworks run a dependency: entered on one thread, left on another."""
    entering = blocks(client, client.lock("job"), client.lock_all(["gate", "job"]))[way]

    def dependency() -> Iterator[object]:
        with entering as lease:
            yield lease

    generator = dependency()
    assert Background(lambda: next(generator)).join().result
    assert isinstance(Background(lambda: next(generator)).join().error, StopIteration)
    assert not list(other.leases())


def test_once_does_not_run_if_its_lease_was_lost_before(
    line: Line, client: Client, other: Client
) -> None:
    def lose(request: Request) -> None:
        if isinstance(request, Read):
            other.break_lock("job")
            wait_for(lambda: not client._driver.runtime.registry.held())

    line.after = lose
    with pytest.raises(LockLost), client.once("job", every=86400, ttl=0.3):
        pytest.fail("entered without the lock")


class TestSeveral:
    def test_a_loss_is_reported_also_if_the_lease_is_dropped_just_then(
        self, client: Client, other: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lease = client.lock_all(["gate", "job"], ttl=0.3).acquire()
        assert lease is not None
        told: list[str] = []
        lease.on_lost(lambda lost: told.append(repr(lost)))
        begun, go_on = threading.Event(), threading.Event()

        def wait(*arguments: Any) -> None:
            begun.set()
            go_on.wait(60)
            call_back(*arguments)

        monkeypatch.setattr("holdfast.drivers.threads.call_back", wait)
        other.break_lock("job")
        wait_for(begun.is_set)
        del lease

        def finish() -> None:
            go_on.set()
            client._driver.wait_for_callbacks(30)

        with pytest.warns(ResourceWarning):
            finish()  # the report, which had kept it
        assert len(told) == 1

    def test_an_engine_that_is_down_is_waited_for_once(
        self, line: Line, client: Client, other: Client
    ) -> None:
        lease = client.lock_all(["gate", "job", "yard"]).acquire()
        assert lease is not None
        asked: list[Release] = []

        def goes_down(request: Request) -> None:
            if isinstance(request, Release) and threading.current_thread() is me:
                asked.append(request)

        me, line.before, line.down = threading.current_thread(), goes_down, True
        with pytest.raises(EngineUnavailable, match="retrying in the background"):
            lease.release()
        assert {request.key for request in asked} == {"holdfast:yard"}
        with pytest.raises(NotHeld):
            lease.release()
        line.down = False
        wait_for(lambda: not list(other.leases()))


def test_a_dead_threads_number_means_nothing(client: Client) -> None:
    """The kernel uses thread numbers again; a new thread must not re-enter a dead one's lease."""
    lock = client.lock("job", reentrant=True)
    with client.lock("first"):  # else a thread of the client may get the number
        first = threading.Thread(target=lock.acquire)
        first.start()
        first.join()
        ident = first.ident
        del first
        for _ in range(10_000):  # a thread of the log may have it for a while
            taken: list[object] = []
            again = threading.Thread(target=lambda t=taken: t.append(lock.acquire(timeout=0)))
            again.start()
            again.join()
            assert taken == [None]
            if again.ident == ident:
                lock.release()
                return
    pytest.fail("no thread got the same number again, so nothing was tested")
