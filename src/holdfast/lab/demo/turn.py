"""One turn of a process: `holdfast run` with its worker, and what the worker wrote."""

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path

from holdfast.lab.demo import worker
from holdfast.lab.demo.worker import clock
from holdfast.lab.history import Event, Kind


@dataclass(frozen=True, slots=True)
class Notes:
    """What one worker has written so far."""

    began: float
    fence: int
    last_alive: float
    ended: float | None


def read_notes(log: Path) -> Notes | None:
    """Read a worker's log; None if it has not begun. An unfinished last line does not count."""
    try:
        lines = [line.split() for line in log.read_text().split("\n")[:-1]]
    except FileNotFoundError:
        return None
    if not lines:
        return None
    _, began, fence = lines[0]
    last_word, last_instant, *_ = lines[-1]
    ended = float(last_instant) if last_word == "ended" else None
    return Notes(float(began), int(fence), float(last_instant), ended)


NAME = "nightly"
"""The lock that all want."""

END_WITHIN = 5.0
"""How long the processes of one turn may take to end when asked to."""


class Turn:
    """One `holdfast run`, from its start to its end."""

    def __init__(
        self, who: str, number: int, folder: Path, url: str, work: float, ttl: float
    ) -> None:
        self.who = who
        self.number = number
        self.notes: Notes | None = None
        self.killed_at = inf
        self.lease_ends_at = -inf
        self.gone_at = inf
        self._work = work
        self._log = folder / f"{who}-{number}.log"
        self._output = folder / f"{who}-{number}.stderr"
        command = [sys.executable, "-I", "-S", worker.__file__, str(self._log), str(work)]
        run = ["run", "-v", "--url", url, "--ttl", str(ttl), NAME, "--", *command]
        # Every process of the turn has the other end of this pipe; when it closes, all are gone.
        self._lifeline, theirs = os.pipe()
        self.came_at = clock()
        with open(self._output, "wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "holdfast.cli", *run],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[theirs],
                start_new_session=True,  # our terminal is not theirs to take, nor our Ctrl-C
            )
        os.close(theirs)

    @property
    def pid(self) -> int:
        """The process id of `holdfast run`."""
        return self._process.pid

    @property
    def killed(self) -> bool:
        """Whether we killed it."""
        return self.killed_at < inf

    @property
    def over(self) -> bool:
        """Whether nothing of it is left."""
        return self.gone_at < inf

    @property
    def began(self) -> float:
        """When its worker began to work under the lock; `inf`: it has not."""
        return inf if self.notes is None else self.notes.began

    @property
    def ended(self) -> float:
        """When its worker was done, or gone; `inf`: it is neither."""
        if self.notes is None or self.notes.ended is None:
            return self.gone_at
        return self.notes.ended

    def is_half_way(self, now: float) -> bool:
        """Whether the worker is in the middle of its section."""
        return self.ended == inf and now > self.began + self._work / 2

    def look(self) -> None:
        """Read what its worker wrote, and notice its end."""
        self.notes = read_notes(self._log)
        if not self.over and self._lifeline_closed(0.0):
            self._process.wait(END_WITHIN)
            self.gone_at = clock()
            os.close(self._lifeline)

    def kill(self) -> None:
        """Kill `holdfast run`, as the kernel does when memory is short. Its worker dies with it."""
        self.killed_at = clock()
        self._process.kill()
        self._lifeline_closed(END_WITHIN)
        self.look()

    def stop(self) -> None:
        """Tell it to end."""
        if not self.over:
            self._process.terminate()

    def end(self) -> None:
        """Wait until no process of it is left; kill it if that takes too long."""
        self._lifeline_closed(END_WITHIN)
        self.look()
        if not self.over:
            self._process.kill()
            self._lifeline_closed(END_WITHIN)
            self.look()

    def events(self, zero: float) -> Iterator[Event]:
        """What happened to it, for the lab's checkers and pictures. `zero`: when the run began."""
        hold = f"{self.who}{self.number}"
        yield Event(self.came_at - zero, self.who, Kind.ASKED, NAME, hold)
        notes = self.notes
        if notes is not None:
            alive = self.ended if self.over else notes.last_alive
            until = max(self.lease_ends_at, alive) - zero
            yield Event(notes.began - zero, self.who, Kind.GRANTED, NAME, hold, notes.fence, until)
            if notes.ended is not None:
                yield Event(notes.ended - zero, self.who, Kind.RELEASED, NAME, hold)
        if self.killed:
            yield Event(self.killed_at - zero, self.who, Kind.CRASHED, note="SIGKILL")

    def fault(self) -> str:
        """What went wrong with it, if anything did."""
        if not self.over:
            return f"{self.who} was still there after {END_WITHIN:g} s"
        if self.killed or self._process.returncode == 0:
            return ""
        output = " / ".join(self._output.read_text(errors="replace").split("\n")[-4:]).strip(" /")
        return f"{self.who}'s holdfast run ended with {self._process.returncode}: {output}"

    def _lifeline_closed(self, seconds: float) -> bool:
        """Whether it closes within `seconds`."""
        if self.over:
            return True
        poll = select.poll()
        poll.register(self._lifeline, 0)
        return bool(poll.poll(seconds * 1000))
