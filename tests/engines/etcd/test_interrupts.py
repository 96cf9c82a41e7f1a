"""A Ctrl-C inside gRPC, where a lock of its channel may stay locked: all later calls go on."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

import holdfast
from holdfast.core.messages import Acquire, Done, Failed, Granted, Held, Release
from tests.equipment.servers.etcd import EtcdServer
from tests.patience import wait_for

from .unreliable import ask, store_on

pytestmark = pytest.mark.slow


@contextmanager
def interruption(error: type[BaseException] = KeyboardInterrupt) -> Iterator[None]:
    """A Ctrl-C, or a signal handler that raises, as gRPC has just locked its channel to begin a
    call."""

    def trace(frame: FrameType, event: str, _: object) -> Any:
        is_locking = frame.f_code is threading.Condition.__enter__.__code__
        if is_locking and event == "return" and in_a_call(frame.f_back):
            sys.settrace(None)
            raise error("too late")
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)


def in_a_call(frame: FrameType | None) -> bool:
    return frame is not None and frame.f_code.co_name == "_blocking"


def test_calls_of_other_threads_go_on(server: EtcdServer) -> None:
    done = threading.Event()

    def look() -> None:
        client.inspect("door")
        done.set()

    with holdfast.Client(server.url) as client:
        other = threading.Thread(target=look, daemon=True)
        server.freeze()
        try:
            other.start()
            wait_for(lambda: in_a_call(sys._current_frames().get(other.ident or 0)))
            with pytest.raises(KeyboardInterrupt), interruption():
                client.inspect("door")
        finally:
            server.thaw()
        wait_for(done.is_set)


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
def test_later_calls_of_the_same_thread_go_on(
    server: EtcdServer, error: type[BaseException]
) -> None:
    done = threading.Event()

    def look() -> None:
        with holdfast.Client(server.url) as client:
            with pytest.raises(error), interruption(error):
                client.inspect("door")
            client.inspect("door")
        done.set()

    threading.Thread(target=look, daemon=True).start()
    wait_for(done.is_set)


@pytest.mark.parametrize("most", range(6))
def test_where_no_thread_can_be_started_a_waiter_polls(
    server: EtcdServer, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """The fault: `RuntimeError` came out of the request, or ended a thread that wakes waiters."""
    start, started = threading.Thread.start, list[threading.Thread]()

    def start_some(thread: threading.Thread) -> None:
        if len(started) >= most:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    with store_on(server) as holder, store_on(server) as store:
        assert isinstance(ask(holder, Acquire("door", "ann", 30)), Granted)
        waiting = Acquire("door", "ben", 30, queue=True)
        with monkeypatch.context() as refusing:
            refusing.setattr(threading.Thread, "start", start_some)
            answer = ask(store, waiting)
        if isinstance(answer, Failed):
            assert "can't start new thread" in str(answer)
        else:
            assert isinstance(answer, Held)
            assert not answer.wakes or len(started) >= 2, "its session would not be kept alive"
        assert isinstance(ask(store, waiting), Held), "it goes on when there are threads again"
        assert isinstance(ask(holder, Release("door", "ann")), Done)
        assert isinstance(ask(store, waiting), Granted)
