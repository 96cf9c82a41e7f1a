"""The store for threads."""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

import grpc

from holdfast.core.effects import Sleep, perform
from holdfast.core.messages import Answer, Held, Request
from holdfast.core.ports import StoreHost
from holdfast.engines.etcd.commands import Call
from holdfast.engines.etcd.connection import (
    SHORTEST,
    Cluster,
    Connection,
    Connections,
    NoAnswer,
    keep_forever,
    read_error,
)
from holdfast.engines.etcd.exchanges import Effects, Exchanges, Send, is_waiting
from holdfast.engines.etcd.protocol import WATCH
from holdfast.engines.etcd.registry import Claim
from holdfast.engines.etcd.waiters import LINGER, REOPEN_AFTER, TICK, WATCH_FOR
from holdfast.engines.queue import HELD

T = TypeVar("T")


class EtcdStore:
    """One cluster, for all threads of a client."""

    def __init__(self, cluster: Cluster, host: StoreHost, claims: dict[str, Claim]) -> None:
        self._clock = host.clock
        self._cluster, self._host, self._claims = cluster, host, claims
        self._begin()

    def _begin(self) -> None:
        self._connections = Connections(self._cluster, self._host.emit)
        self._exchanges = Exchanges(self._connections, self._host, self._claims)
        self._closing = False
        self._watcher: Watcher | None = None
        """The last one; it may be ending, if there are no waiters."""
        self._mutex = threading.Lock()

    def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Answer each request; `Failed` for what could not be answered by `until`."""
        answers = self._perform(self._exchanges.ask(requests, until))
        if is_waiting(requests, answers) and not self._watch():
            return [Held(HELD.remaining, wakes=False)]  # so it polls, which keeps its session alive
        return answers

    def close(self) -> None:
        """Revoke all etcd leases, and close every connection. While the interpreter shuts down, no
        thread runs that could do it: then the servers end the etcd leases."""
        if sys.is_finalizing():
            return
        with self._mutex:  # none is started after this
            self._closing = True
        if self._watcher is not None:
            self._watcher.stop()
        self._perform(self._exchanges.end())
        for connection in self._connections.close():
            connection.channel.close()

    def forget(self) -> None:
        """In a forked child: everything is the parent's, so all is made anew."""
        keep_forever(self._watcher, self._connections)
        self._claims.clear()
        self._begin()

    def _watch(self) -> bool:
        """See to it that waiters are woken, and their sessions kept alive; False if no thread can
        be started for that."""
        with self._mutex:
            if self._closing or (self._watcher is not None and self._watcher.works):
                return True
            if self._watcher is not None:
                self._watcher.end()  # it may have been interrupted while it was being started
            self._watcher = Watcher(self._connections, self._exchanges, self._perform)
            try:
                self._watcher.start()
            except RuntimeError:
                self._watcher.end()
                return False
            return True

    def _perform(self, effects: Effects[T]) -> T:
        return perform(effects, self._do, NoAnswer)

    def _do(self, effect: Send | Sleep) -> Any:
        if isinstance(effect, Sleep):
            return time.sleep(max(0.0, effect.until - self._clock()))
        try:
            return self._send(*effect)
        except NoAnswer:
            raise
        except BaseException as error:
            self._connections.interrupted(effect.connection)
            if type(error) is RuntimeError:  # gRPC can start no thread
                raise NoAnswer(str(error)) from None
            raise  # of a signal handler

    def _send(self, calls: list[Call], connection: Connection, until: float) -> list[Any]:
        left, metadata = max(until - self._clock(), SHORTEST), self._connections.metadata

        def begin(call: Call) -> Callable[[], Any]:
            send, request = connection[call.method], call.request
            if call.method.streams:
                replies = send(iter([request]), left, metadata)
                return lambda: list(replies).pop()
            if len(calls) == 1:  # a future would take a change of threads
                return lambda: send(request, left, metadata)
            return send.future(request, left, metadata).result  # type: ignore[no-any-return]

        return [_reply(wait) for wait in [begin(call) for call in calls]]


def _reply(wait: Callable[[], Any]) -> Any:
    """The reply to a call, which may be an error."""
    try:
        return wait()
    except grpc.RpcError as error:
        return read_error(error)
    except IndexError:
        raise NoAnswer("did not answer") from None


class Watcher:
    """Two threads for a client with waiters: one reads the stream of watches, the other one keeps
    their sessions alive. They end when there was no waiter for a while, and with the client."""

    def __init__(
        self,
        connections: Connections,
        exchanges: Exchanges,
        perform: Callable[[Effects[object]], object],
    ) -> None:
        self._connections, self._exchanges, self._perform = connections, exchanges, perform
        self._over = threading.Event()
        self._mutex = threading.Lock()
        self._stream: Any = None
        self._threads = [
            threading.Thread(target=self._read, name="holdfast-etcd-watch", daemon=True),
            threading.Thread(target=self._keep, name="holdfast-etcd-session", daemon=True),
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    @property
    def works(self) -> bool:
        """Whether it serves waiters."""
        return not self._over.is_set() and all(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """End, and wait for it."""
        self.end()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def end(self) -> None:
        """Serve no waiter any more."""
        self._over.set()
        self._cancel_stream()

    def _keep(self) -> None:
        idle = 0
        while not self._over.wait(TICK):
            connection = self._connections.current
            self._perform(self._exchanges.keep_waiters())
            if connection is not self._connections.current:
                self._cancel_stream()  # that endpoint has failed
            idle = 0 if self._exchanges.registry.waited_for() else idle + 1
            if idle > LINGER:
                self.end()  # a waiter that came at the last moment is woken, and asks again

    def _cancel_stream(self) -> None:
        with self._mutex:
            if self._stream is not None:
                self._stream.cancel()

    def _read(self) -> None:
        while not self._over.is_set():
            connection = self._connections.current
            try:
                self._read_stream(connection)
            except RuntimeError:  # gRPC can start no thread
                self._connections.interrupted(connection)
            self._over.wait(REOPEN_AFTER)

    def _read_stream(self, connection: Connection) -> None:
        outbox: SimpleQueue[Any] = SimpleQueue()
        stream = connection[WATCH](iter(outbox.get, None), WATCH_FOR, self._connections.metadata)
        with self._mutex:
            self._stream = stream
        send = outbox.put
        self._exchanges.watches.opened(send)
        try:
            if not self._over.is_set():
                for response in stream:
                    if not self._exchanges.watches.received(response):
                        break
        except grpc.RpcError as error:
            with suppress(NoAnswer):  # the next call finds out, and goes to another endpoint
                self._connections.read_error(error)
        finally:
            stream.cancel()
            send(None)
            self._exchanges.watches.closed(send)
