"""Two threads for a client some of whose threads wait: one listens to the watches, the other one
keeps the session alive. They end when nobody has waited for a while, and with the client."""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import grpc

from holdfast.engines.etcd.lines import Lines
from holdfast.engines.etcd.protocol import WATCH
from holdfast.engines.etcd.replies import Trouble
from holdfast.engines.etcd.vigil import REOPEN_AFTER, TICK, WATCH_FOR, Vigil


class Attendant:
    """Listens for those who wait, and keeps their places."""

    def __init__(self, lines: Lines, vigil: Vigil, keep_places: Callable[[], None]) -> None:
        self._lines, self._vigil, self._keep_places = lines, vigil, keep_places
        self._over = threading.Event()
        self._mutex = threading.Lock()
        self._stream: Any = None
        self._threads = [
            threading.Thread(target=self._listen, name="holdfast-etcd-watch", daemon=True),
            threading.Thread(target=self._keep, name="holdfast-etcd-session", daemon=True),
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    @property
    def over(self) -> bool:
        """Whether it attends to nobody any more."""
        return self._over.is_set()

    @property
    def alive(self) -> bool:
        """Whether it is there, if only to take its leave."""
        return any(thread.is_alive() for thread in self._threads)

    def dismiss(self) -> None:
        """End."""
        self._over.set()
        self._cancel_stream()

    def stop(self) -> None:
        """End, and wait until it is done."""
        self.dismiss()
        for thread in self._threads:
            thread.join()

    def _keep(self) -> None:
        while not self._over.wait(TICK):
            line = self._lines.current
            self._keep_places()
            if line is not self._lines.current:
                self._cancel_stream()  # it would be as silent as that endpoint is

    def _cancel_stream(self) -> None:
        with self._mutex:
            if self._stream is not None:
                self._stream.cancel()

    def _listen(self) -> None:
        while not self._over.is_set():
            line = self._lines.current
            outbox: SimpleQueue[Any] = SimpleQueue()
            stream = line[WATCH](iter(outbox.get, None), WATCH_FOR, self._lines.metadata)
            with self._mutex:
                self._stream = stream
            say = outbox.put
            self._vigil.opened(say)
            try:
                if not self._over.is_set():
                    for response in stream:
                        if not self._vigil.hear(response):
                            break
            except grpc.RpcError as error:
                self._note(error)
            finally:
                stream.cancel()
                say(None)
                self._vigil.closed(say)
            self._over.wait(REOPEN_AFTER)

    def _note(self, error: grpc.RpcError) -> None:
        try:
            self._lines.judge(error)
        except Trouble:
            return  # whoever asks next finds out what it is, and where to go
