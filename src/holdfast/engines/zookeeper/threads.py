"""The store for threads; and the heartbeat, which the store for asyncio uses too."""

import atexit
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from holdfast.core.messages import Answer, Request
from holdfast.core.ports import Clock, StoreHost
from holdfast.engines.zookeeper.exchange import Exchange, request_timeout
from holdfast.engines.zookeeper.exchanges import Exchanges, answers_of
from holdfast.engines.zookeeper.sessions import Terms
from holdfast.events import InternalError


class ZooKeeperStore:
    """One ensemble, for all threads of a client."""

    def __init__(self, terms: Terms, chroot: str, host: StoreHost) -> None:
        self._exchanges = Exchanges(terms, chroot, host)
        self._clock = host.clock
        self._heartbeat = Heartbeat(self._exchanges)

    def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Answer each request; `Failed` for what could not be answered by `until`."""
        self._heartbeat.start()
        parts = self._exchanges.parts(requests)
        run([part.exchange for part in parts], until, self._clock)
        return answers_of(parts, len(requests))

    def close(self) -> None:
        """End every session, and with it its nodes."""
        self._heartbeat.end()

    def forget(self) -> None:
        """In a forked child: the sessions are the parent's."""
        self._heartbeat.forget()
        self._exchanges.forget()
        self._heartbeat = Heartbeat(self._exchanges)


class Heartbeat:
    """A thread that sends the heartbeats of all sessions, and releases what is overdue."""

    def __init__(self, exchanges: Exchanges) -> None:
        self._exchanges = exchanges
        self._terms = exchanges.sessions.terms
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._mutex = threading.Lock()

    def start(self) -> None:
        """Start the thread, if it does not run."""
        if self._thread is None:
            with self._mutex:
                if self._thread is None:
                    thread = threading.Thread(
                        target=self._run, name="holdfast-heartbeat", daemon=True
                    )
                    thread.start()
                    self._thread = thread
                    atexit.register(self._at_exit)

    def end(self) -> None:
        """End the thread, and every session. While the interpreter shuts down, no thread runs that
        could do it: then the servers end the sessions."""
        if sys.is_finalizing():
            return
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._exchanges.sessions.end()
        self.forget()  # not before: the process may end in the middle of this

    def forget(self) -> None:
        """Do nothing at exit."""
        atexit.unregister(self._at_exit)

    def _at_exit(self) -> None:
        """The process ends, and the client was not closed: its sessions need not outlive it."""
        self._exchanges.sessions.begin_end()

    def _run(self) -> None:
        while not self._stop.wait(self._terms.tick / 2):
            try:
                self._beat()
            except Exception as error:  # noqa: BLE001 - a defect must not end all sessions
                self._exchanges.emit(InternalError("the heartbeat", error))

    def _beat(self) -> None:
        for session in self._exchanges.sessions:
            session.heartbeat()
        clock = self._exchanges.clock
        overdue = [part.exchange for part in self._exchanges.overdue()]
        run(overdue, clock() + self._terms.tick / 4, clock)


def run(exchanges: Sequence[Exchange[Any]], until: float, clock: Clock) -> None:
    """Run exchanges side by side: each sends its calls before the results are waited for."""
    running = list(exchanges)
    while running:
        awaited = [(exchange, exchange.awaited()) for exchange in running]
        for exchange, results in awaited:
            if not exchange.over:
                _go_on(exchange, results, until, clock)
        running = [exchange for exchange in running if not exchange.over]


def _go_on(exchange: Exchange[Any], results: Sequence[Any], until: float, clock: Clock) -> None:
    if exchange.pause:
        time.sleep(max(0.0, min(exchange.pause, until - clock())))
    there = all(_is_there(result, until, clock) for result in results)
    if not there or (exchange.pause and clock() >= until):
        exchange.run_out()
    else:
        exchange.go_on()


def _is_there(result: Any, until: float, clock: Clock) -> bool:
    """Wait for a result, or an error; False if that comes too late."""
    if result.ready() or result.wait(request_timeout(until, clock())):
        return True
    return bool(result.wait(request_timeout(until, clock())))  # 0 s, unless we were stopped
