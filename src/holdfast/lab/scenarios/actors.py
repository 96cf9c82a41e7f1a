"""What happens on a stage, and its clients: they get orders, are stopped, and are killed."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from holdfast.lab.history import Event, History, Kind
from holdfast.lab.scenarios.client_process import Role
from holdfast.lab.servers.process import bound_to_us

TIME_LIMIT = 20.0
"""How long anything may take on a busy machine, in seconds."""


class StageFailed(RuntimeError):
    """The story was aborted, so it has no outcome."""


class Log:
    """The events of one run. `show_event` is called with each, from whatever thread."""

    def __init__(self, show_event: Callable[[Event], None]) -> None:
        self._report = show_event
        self._began = time.monotonic()
        self._events: list[Event] = []
        self._names: dict[str, str] = {}  # never changed in place: threads look through it
        self._changed = threading.Condition()

    def history(self) -> History:
        """What happened so far."""
        with self._changed:
            return History(self._events)

    def now(self) -> float:
        """Seconds since the stage was set."""
        return time.monotonic() - self._began

    def record(self, event: Event) -> None:
        """Keep an event, show it, and wake `wait_until`."""
        for address, name in self._names.items():
            event = replace(event, note=event.note.replace(address, name))
        with self._changed:
            self._events.append(event)
            self._report(event)
            self._changed.notify_all()

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
        """Poll until it holds; a story that makes no progress is aborted."""
        give_up_at = time.monotonic() + TIME_LIMIT
        while not condition():
            if time.monotonic() > give_up_at:
                raise StageFailed(f"no {what} within {TIME_LIMIT:g} s")
            with self._changed:
                self._changed.wait(0.01)


PROGRAM = "holdfast.lab.scenarios.client_process"


class Actor:
    """One client. Each method but `begins_to_acquire` waits for what comes of it, and gives it."""

    def __init__(self, role: Role, log: Log) -> None:
        self.who = role.who
        self.ttl = role.ttl
        self._log = log
        self._reported: list[Event] = []
        self._process = subprocess.Popen(  # noqa: S603 - it is our own program
            [*bound_to_us(), sys.executable, "-P", "-m", PROGRAM, role.as_json()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for us
        )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The id of its process."""
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
        self._order("acquire", timeout=timeout)

    def extends(self) -> Event:
        """Let the lease last its whole time from now."""
        self._order("extend")
        return self.reports(Kind.EXTENDED)

    def releases(self) -> Event:
        """Release the lock, or learn that there is nothing to release."""
        self._order("release")
        return self.reports(Kind.RELEASED, Kind.NOTED)

    def checks(self) -> Event:
        """Check whether the lock is still held."""
        self._order("check")
        return self.reports(Kind.NOTED)

    def writes(self, value: str) -> Event:
        """Write to both registers, if the lock is still held; the plain one is the second."""
        self._order("write", value=value, unchecked=False)
        outcome = self.reports(Kind.WROTE, Kind.REJECTED, Kind.NOTED)
        return outcome if outcome.kind is Kind.NOTED else self.reports(Kind.WROTE)

    def goes_on_to_write(self, value: str) -> Event:
        """Write to both registers without checking the lease."""
        self._order("write", value=value, unchecked=True)
        self.reports(Kind.WROTE, Kind.REJECTED)
        return self.reports(Kind.WROTE)

    def reports(self, *kinds: Kind) -> Event:
        """The next event of these kinds that the client reports."""
        what = f"event of {self.who} ({' or '.join(kinds)})"
        self._log.wait_until(lambda: self.has_reported(*kinds), what)
        found = next(event for event in self._reported if event.kind in kinds)
        self._reported.remove(found)
        return found

    def has_reported(self, *kinds: Kind) -> bool:
        """Whether it has reported such an event, which was not asked for yet."""
        over = self._process.poll() is not None and not self._reader.is_alive()
        found = any(event.kind in kinds for event in self._reported)
        if over and not found:
            raise StageFailed(f"{self.who}'s process has ended")
        return found

    def stop(self) -> None:
        """Stop its process, threads and all."""
        self._process.send_signal(signal.SIGSTOP)
        if sys.platform == "linux":
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        self._log.note(self.who, Kind.PAUSED)

    def wake(self) -> None:
        """Let its process go on."""
        self._log.note(self.who, Kind.RESUMED)
        self._process.send_signal(signal.SIGCONT)

    def die(self) -> None:
        """Kill its process."""
        self.close()
        self._log.note(self.who, Kind.CRASHED)

    def close(self) -> None:
        """End its process, and read what it has reported until then."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _order(self, do: str, **details: Any) -> None:
        if self._process.stdin is None:
            raise StageFailed(f"{self.who} takes no orders")
        self._process.stdin.write(json.dumps({"do": do, **details}).encode() + b"\n")
        self._process.stdin.flush()

    def _listen(self) -> None:
        for line in self._process.stdout or ():
            event = Event.from_json(line.decode())
            self._reported.append(event)
            self._log.record(event)
