"""The store, and the heartbeat."""

import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import TypeVar

from holdfast.core.effects import Sleep, perform
from holdfast.core.messages import Answer, Failed, Request
from holdfast.core.ports import Clock, StoreHost
from holdfast.engines.zookeeper.exchanges import Await, Exchanges, Waits
from holdfast.engines.zookeeper.sessions import Terms
from holdfast.events import InternalError

T = TypeVar("T")


class ZooKeeperStore:
    """One ensemble, for all threads of a client; and the thread that sends the heartbeats."""

    def __init__(self, terms: Terms, chroot: str, host: StoreHost) -> None:
        self._make_exchanges = partial(Exchanges, terms, chroot, host)
        self._begin()

    def _begin(self) -> None:
        self._exchanges = self._make_exchanges()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._mutex = threading.Lock()

    def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Answer each request; `Failed` for what could not be answered by `until`."""
        if self._thread is None:
            try:
                self._start_heartbeat()
            except RuntimeError as error:  # no thread can be started
                return [Failed.at("ZooKeeper", str(error))] * len(requests)
        return _perform(self._exchanges.ask(requests, until), self._exchanges.clock)

    def close(self) -> None:
        """End every session, and with it its nodes. While the interpreter shuts down, no thread
        runs that could do it: then the servers end the sessions."""
        if sys.is_finalizing():
            return
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._exchanges.sessions.end()

    def forget(self) -> None:
        """In a forked child: everything is the parent's, so all is made anew."""
        for session in self._exchanges.sessions:
            session.forget()
        self._begin()

    def _start_heartbeat(self) -> None:
        with self._mutex:
            if self._thread is None:
                thread = threading.Thread(target=self._beat, name="holdfast-heartbeat", daemon=True)
                thread.start()
                self._thread = thread

    def _beat(self) -> None:
        while not self._stop.wait(self._exchanges.pause):
            try:
                _perform(self._exchanges.beat(), self._exchanges.clock)
            except Exception as error:  # noqa: BLE001 - a defect must not end all sessions
                self._exchanges.emit(InternalError("the heartbeat", error))


def _perform(waits: Waits[T], clock: Clock) -> T:
    def wait(effect: Await | Sleep) -> None:
        left = max(0.0, effect.until - clock())
        if isinstance(effect, Sleep):
            time.sleep(left)
        else:
            effect.result.wait(left)

    return perform(waits, wait)
