"""The contest: processes that want the lock in turns, and one of them killed while it has it."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path
from urllib.parse import quote

from holdfast.client import Client
from holdfast.lab.demo import worker
from holdfast.lab.demo.evidence import Notes, Section, find_faults, read_notes
from holdfast.lab.demo.worker import clock

NAME = "nightly"
LATE = 1.0
"""How much later than the ttl a loaded machine may hand the lock of a killed holder on."""
BURIAL = 5.0
"""How long the processes of one turn may take to be gone once they are told to."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Who wants the lock, how often, for how long, and which section is cut short."""

    contenders: tuple[str, ...] = ("ann", "ben", "cyd", "dan", "eve")
    turns: int = 2
    work: float = 0.9
    rest: float = 0.3
    ttl: float = 2.0
    kill: int = 4
    """The section, counted from 1, whose holder is killed in the middle."""
    patience: float = 60.0
    """Seconds after which the contest is broken off."""

    @property
    def length(self) -> float:
        """About how long it will take, in seconds."""
        sections = len(self.contenders) * self.turns - 1
        return sections * (self.work + 0.08) + self.ttl


class Turn:
    """One `holdfast run`, from its start to its end."""

    def __init__(self, who: str, number: int, folder: Path, url: str, plan: Plan) -> None:
        self.who = who
        self.number = number
        self.notes: Notes | None = None
        self.killed_at = inf
        self.lease_ends_at = -inf
        self.gone_at = inf
        self._work = plan.work
        self._log = folder / f"{who}-{number}.log"
        self._said = folder / f"{who}-{number}.stderr"
        command = [sys.executable, "-I", "-S", worker.__file__, str(self._log), str(plan.work)]
        run = ["run", "-v", "--url", url, "--ttl", str(plan.ttl), NAME, "--", *command]
        # Every process of the turn has the other end of this pipe; when it closes, all are gone.
        self._lifeline, theirs = os.pipe()
        self.came_at = clock()
        with open(self._said, "wb") as said:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "holdfast.cli", *run],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
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

    def is_half_way(self, now: float) -> bool:
        """Whether the worker is in the middle of its section."""
        notes = self.notes
        return notes is not None and notes.ended is None and now > notes.began + self._work / 2

    def look(self) -> None:
        """See what has become of it."""
        self.notes = read_notes(self._log)
        if not self.over and self._lifeline_closed(0.0):
            self._process.wait(BURIAL)
            self.gone_at = clock()
            os.close(self._lifeline)

    def kill(self) -> None:
        """Kill `holdfast run` as the kernel would when memory is short, and see its worker die."""
        self.killed_at = clock()
        self._process.kill()
        self._lifeline_closed(BURIAL)
        self.look()

    def end(self) -> None:
        """Leave no process behind."""
        for signum in (signal.SIGTERM, signal.SIGKILL):
            if not self.over:
                self._process.send_signal(signum)
                self._lifeline_closed(BURIAL)
                self.look()

    def section(self) -> Section | None:
        """The time that its worker had under the lock."""
        notes = self.notes
        if notes is None:
            return None
        ended = max(self.gone_at, notes.last_alive) if notes.ended is None else notes.ended
        return Section(self.who, notes.fence, notes.began, ended, self.killed)

    def fault(self) -> str:
        """What went wrong with it, if anything did."""
        if not self.over:
            return f"{self.who} was still there after {BURIAL:g} s"
        if self.killed or self._process.returncode == 0:
            return ""
        said = " / ".join(self._said.read_text(errors="replace").split("\n")[-4:]).strip(" /")
        return f"{self.who}'s holdfast run ended with {self._process.returncode}: {said}"

    def _lifeline_closed(self, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._lifeline, 0)
        return bool(poll.poll(seconds * 1000))


class Contest:
    """All turns of all contenders. `tell` gets a line for everything that happens."""

    def __init__(self, plan: Plan, folder: Path, tell: Callable[[str], None]) -> None:
        self.plan = plan
        self.turns: list[Turn] = []
        self.began_at = clock()
        self.victim: Turn | None = None
        self._tell = tell
        self._folder = folder
        self._url = f"sqlite://{quote(str(folder / 'demo.db'))}"
        self._client = Client(self._url)
        # One after the other, so that they come to wait in a known order.
        self._due = {who: self.began_at + i * 0.1 for i, who in enumerate(plan.contenders)}

    def __enter__(self) -> "Contest":
        return self

    def __exit__(self, *exc: object) -> None:
        for turn in self.turns:
            turn.end()
        self._client.close()

    @property
    def over(self) -> bool:
        """Whether everybody had their turns."""
        return not self._due and all(turn.over for turn in self.turns)

    @property
    def out_of_patience(self) -> bool:
        """Whether it takes so long that something must be wrong."""
        return clock() > self.began_at + self.plan.patience

    def step(self) -> None:
        """Follow what happened since the last step; start and kill what is due."""
        now = clock()
        for who, instant in list(self._due.items()):
            if instant <= now:
                del self._due[who]
                number = 1 + sum(turn.who == who for turn in self.turns)
                self.turns.append(Turn(who, number, self._folder, self._url, self.plan))
        for turn in self.turns:
            if not turn.over:
                self._follow(turn)
        self._watch_lease()
        if self.victim is None and len(self._begun()) == self.plan.kill:
            holder = self._begun()[-1]
            if holder.is_half_way(now):
                self._kill(holder)

    def current(self, who: str) -> Turn | None:
        """The latest turn of this contender."""
        return next((turn for turn in reversed(self.turns) if turn.who == who), None)

    def sections(self) -> list[Section]:
        """What the workers' own notes say, in order."""
        return sorted(self._sections(), key=lambda section: section.began)

    def take_over(self) -> float:
        """Seconds from the kill to the next section; `inf` if there was none."""
        killed_at = self.victim.killed_at if self.victim else inf
        return min((s.began - killed_at for s in self._sections() if s.began > killed_at), default=inf)

    def faults(self) -> list[str]:
        """Everything that speaks against the lock, or against this demo."""
        faults = find_faults(self.sections())
        faults += [fault for turn in self.turns if (fault := turn.fault())]
        wanted = len(self.plan.contenders) * self.plan.turns
        if self.victim is None:
            faults.append("nobody was killed")
        else:
            wanted -= self.plan.turns - self.victim.number
            faults += self._take_over_faults(self.victim)
        if len(self.sections()) != wanted:
            faults.append(f"{wanted} sections were wanted, and {len(self.sections())} came about")
        return faults

    def _take_over_faults(self, victim: Turn) -> Iterator[str]:
        took = self.take_over()
        if took > self.plan.ttl + LATE:
            yield f"nobody took over within the ttl of {self.plan.ttl:g} s, but after {took:.2f} s"
        if victim.killed_at + took < victim.lease_ends_at:
            early = victim.lease_ends_at - victim.killed_at - took
            yield f"the lock was handed on {early:.3f} s before {victim.who}'s lease had ended"

    def _sections(self) -> Iterator[Section]:
        return (section for turn in self.turns if (section := turn.section()))

    def _begun(self) -> list[Turn]:
        begun = [(turn.notes.began, turn) for turn in self.turns if turn.notes]
        return [turn for _, turn in sorted(begun, key=lambda pair: pair[0])]

    def _follow(self, turn: Turn) -> None:
        waited = turn.notes is None
        turn.look()
        if waited and turn.notes:
            self._tell(self._entrance(turn, turn.notes))
        if turn.over and turn.number < self.plan.turns and not turn.killed:
            self._due[turn.who] = clock() + self.plan.rest

    def _entrance(self, turn: Turn, notes: Notes) -> str:
        before = [other for other in self._begun() if other is not turn]
        text = f"{turn.who} holds the lock under fence {notes.fence}"
        if not before:
            return text
        last = before[-1]
        if last.killed:
            seconds = notes.began - last.killed_at
            return f"{text}, {seconds:.2f} s after {last.who} was killed"
        section = last.section()
        gap = notes.began - section.ended if section else 0.0
        return f"{text}, {gap * 1000:.0f} ms after {last.who} was done"

    def _watch_lease(self) -> None:
        asked_at = clock()
        lease = self._client.inspect(NAME)
        if lease is None or lease.label is None:
            return
        for turn in self.turns:
            if turn.pid == lease.label.pid:
                turn.lease_ends_at = asked_at + lease.remaining

    def _kill(self, turn: Turn) -> None:
        self.victim = turn
        turn.kill()
        self._watch_lease()
        left = turn.lease_ends_at - clock()
        gone = (turn.gone_at - turn.killed_at) * 1000
        self._tell(f"SIGKILL for {turn.who}'s holdfast run (pid {turn.pid}), half way through")
        self._tell(f"its worker died with it, {gone:.0f} ms later; the lease ends in {left:.2f} s")
