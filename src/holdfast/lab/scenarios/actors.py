"""What happens on a stage, and its clients: they get orders, are stopped, and are killed."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Pipe, wait
from typing import Any

from holdfast.lab.history import Event, History, Kind
from holdfast.lab.scenarios.client_process import Role, Worker
from holdfast.lab.servers.process import bound_to_us, suspend

TIME_LIMIT = 20.0
"""How long anything may take on a busy machine, in seconds."""


class StageFailed(RuntimeError):
    """The story was aborted, so it has no outcome."""


class Log:
    """The events of one run. `show_event` is called with each."""

    def __init__(self, show_event: Callable[[Event], None]) -> None:
        self._show_event = show_event
        self._began = time.monotonic()
        self._events: list[Event] = []
        self._names: dict[str, str] = {}
        self._actors: list[Actor] = []

    def history(self) -> History:
        """What happened so far."""
        return History(self._events)

    def now(self) -> float:
        """Seconds since the stage was set."""
        return time.monotonic() - self._began

    def record(self, event: Event) -> None:
        for address, name in self._names.items():
            event = replace(event, note=event.note.replace(address, name))
        self._events.append(event)
        self._show_event(event)

    def note(self, who: str, kind: Kind, note: str = "", peer: str = "") -> None:
        """Keep what happens to a client or a node now."""
        self.record(Event(self.now(), who, kind, note=note, peer=peer))

    def calm(self) -> None:
        """The last fault is over: from here on, a free lock must be granted."""
        self.note("", Kind.HEALED)

    def let_pass(self, seconds: float) -> None:
        """Let some time of the story pass."""
        end = self.now() + seconds
        self.wait_until(lambda: self.now() >= end, "end")

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        """Receive events until it holds; a story that makes no progress is aborted."""
        give_up_at = time.monotonic() + TIME_LIMIT
        while not condition():
            if time.monotonic() > give_up_at:
                raise StageFailed(f"no {what} within {TIME_LIMIT:g} s")
            wait([actor.pipe for actor in self._actors if not actor.ended], 0.01)
            received = [event for actor in self._actors for event in actor.receive()]
            for event in sorted(received, key=lambda event: event.at):
                self.record(event)


class Actor:
    """One client. Each method but `begins_to_acquire` waits for what comes of it, and gives it."""

    def __init__(self, role: Role, log: Log) -> None:
        self.who = role.who
        self.ended = False
        """Whether its process has, and all that it reported was received."""
        self._log = log
        self._reported: list[Event] = []
        self.pipe, theirs = Pipe()
        with theirs:
            program = f"from {Worker.__module__} import main; main({theirs.fileno()})"
            self._process = subprocess.Popen(  # noqa: S603 - it is our own program
                [*bound_to_us(), sys.executable, "-P", "-c", program],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for us
            )
        self.pipe.send(role)

    @property
    def pid(self) -> int:
        return self._process.pid

    def acquires(self, timeout: float = TIME_LIMIT) -> Event:
        """Ask for the lock, and get it."""
        outcome = self.tries(timeout)
        if outcome.kind is not Kind.GRANTED:
            raise StageFailed(f"{self.who} did not get the lock: {outcome.note}")
        return outcome

    def tries(self, timeout: float) -> Event:
        """Ask for the lock, for at most `timeout` seconds; granted or refused."""
        self.begins_to_acquire(timeout)
        return self.reports(Kind.GRANTED, Kind.REFUSED)

    def begins_to_acquire(self, timeout: float = TIME_LIMIT) -> None:
        """Ask for the lock; the outcome is reported later."""
        self._order(Worker.acquire, timeout)

    def extends(self) -> Event:
        """Let the lease last its whole time from now."""
        self._order(Worker.extend)
        return self.reports(Kind.EXTENDED)

    def releases(self) -> Event:
        """Release the lock, or learn that there is nothing to release."""
        self._order(Worker.release)
        return self.reports(Kind.RELEASED, Kind.NOTED)

    def checks(self) -> Event:
        """Check whether the lock is still held."""
        self._order(Worker.check)
        return self.reports(Kind.NOTED)

    def writes(self, value: str, *, unchecked: bool = False) -> Event:
        """Write to both registers, if the lock is still held; `unchecked`: in any case."""
        self._order(Worker.write, value, unchecked)
        outcome = self.reports(Kind.WROTE, Kind.REJECTED, Kind.NOTED)
        return outcome if outcome.kind is Kind.NOTED else self.reports(Kind.WROTE)  # the plain one

    def reports(self, *kinds: Kind) -> Event:
        """The next event of these kinds that the client reports."""
        what = f"event of {self.who} ({' or '.join(kinds)})"
        self._log.wait_until(lambda: self.has_reported(*kinds), what)
        found = next(event for event in self._reported if event.kind in kinds)
        self._reported.remove(found)
        return found

    def has_reported(self, *kinds: Kind) -> bool:
        """Whether it has reported such an event, which was not asked for yet."""
        found = any(event.kind in kinds for event in self._reported)
        if self.ended and not found:
            raise StageFailed(f"{self.who}'s process has ended")
        return found

    def receive(self) -> list[Event]:
        """What it has reported since it was last looked at."""
        received: list[Event] = []
        try:
            while not self.ended and self.pipe.poll():
                received.append(self.pipe.recv())
        except (EOFError, OSError):  # its end of the pipe is closed
            self.ended = True
        self._reported += received
        return received

    def stop(self) -> None:
        suspend(self._process)
        self._log.note(self.who, Kind.PAUSED)

    def wake(self) -> None:
        self._log.note(self.who, Kind.RESUMED)
        self._process.send_signal(signal.SIGCONT)

    def die(self) -> None:
        self.close()
        self._log.note(self.who, Kind.CRASHED)

    def close(self) -> None:
        """End its process, and record what it has reported until then."""
        self._process.kill()
        self._process.wait()
        for event in self.receive():
            self._log.record(event)
        self.ended = True
        self.pipe.close()

    def _order(self, order: Callable[..., None], *arguments: Any) -> None:
        try:
            self.pipe.send((order, *arguments))
        except OSError as error:
            raise StageFailed(f"{self.who}'s process has ended") from error
