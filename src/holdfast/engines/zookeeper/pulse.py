"""The pulse of a client: what must happen now and then, while it has any session."""

import threading
from collections.abc import Callable

from holdfast.events import Event, InternalError


class Pulse:
    """A thread that does something again and again, and tells of it if that should ever fail."""

    def __init__(
        self, interval: Callable[[], float], beat: Callable[[], None], emit: Callable[[Event], None]
    ) -> None:
        self._interval, self._beat, self._emit = interval, beat, emit
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holdfast-pulse", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._interval()):
            try:
                self._beat()
            except Exception as error:  # noqa: BLE001 - a defect must not end all sessions
                self._emit(InternalError("the pulse", error))
