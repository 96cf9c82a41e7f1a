"""The contest: processes take turns under the lock, and one of them is killed while it holds it."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from pathlib import Path
from urllib.parse import quote

from holdfast.client import Client
from holdfast.lab.checkers import disorder, overlaps
from holdfast.lab.demo.turn import NAME, Turn
from holdfast.lab.demo.worker import clock
from holdfast.lab.history import History

LATE = 1.0
"""How many seconds after the ttl the lock of a killed holder may pass on, on a busy machine."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Who wants the lock, how often, for how long, and which section is cut short."""

    contenders: tuple[str, ...] = ("ann", "ben", "cyd", "dan", "eve")
    turns: int = 2
    work: float = 1.0
    rest: float = 0.3
    ttl: float = 2.0
    kill: int = 4
    """The section, counted from 1, whose holder is killed in the middle."""
    give_up_after: float = 60.0
    """Seconds after which the contest is broken off."""


class Contest:
    """All turns of all contenders. `show_event` is called with a line for each event."""

    def __init__(self, plan: Plan, folder: Path, show_event: Callable[[str], None]) -> None:
        self.plan = plan
        self.turns: list[Turn] = []
        self.began_at = clock()
        self.victim: Turn | None = None
        self._show_event = show_event
        self._folder = folder
        self._url = f"sqlite://{quote(str(folder / 'demo.db'))}"
        self._client = Client(self._url)
        # One after the other, so that they come to wait in a known order.
        self._due = {who: self.began_at + i * 0.1 for i, who in enumerate(plan.contenders)}

    def __enter__(self) -> "Contest":
        return self

    def __exit__(self, *exc: object) -> None:
        for turn in self.turns:
            turn.stop()
        for turn in self.turns:
            turn.end()
        self._client.close()

    @property
    def over(self) -> bool:
        """Whether all turns are over."""
        return not self._due and all(turn.over for turn in self.turns)

    @property
    def timed_out(self) -> bool:
        """Whether it takes longer than it ever should."""
        return clock() > self.began_at + self.plan.give_up_after

    def step(self) -> None:
        """Follow what happened since the last step; start and kill what is due."""
        now = clock()
        for who, instant in list(self._due.items()):
            if instant <= now:
                del self._due[who]
                number = 1 + sum(turn.who == who for turn in self.turns)
                self.turns.append(
                    Turn(who, number, self._folder, self._url, self.plan.work, self.plan.ttl)
                )
        self._look()
        self._watch_lease()
        begun = self.begun()
        if self.victim is None and len(begun) >= self.plan.kill and begun[-1].is_half_way(now):
            self._kill(begun[-1])

    def history(self) -> History:
        """What happened, for the lab's checkers and pictures."""
        return History(event for turn in self.turns for event in turn.events(self.began_at))

    def begun(self) -> list[Turn]:
        """The turns whose worker has begun, in order."""
        return sorted(
            (turn for turn in self.turns if turn.began < inf), key=lambda turn: turn.began
        )

    def take_over(self) -> float:
        """Seconds from the kill to the next section; `inf` if there was none."""
        killed_at = self.victim.killed_at if self.victim else inf
        return next((t.began - killed_at for t in self.begun() if t.began > killed_at), inf)

    def faults(self) -> list[str]:
        """Everything that speaks against the lock, or against this demo."""
        history = self.history()
        faults = [finding.text for finding in (*overlaps(history), *disorder(history))]
        faults += [fault for turn in self.turns if (fault := turn.fault())]
        wanted = len(self.plan.contenders) * self.plan.turns
        if self.victim is None:
            faults.append("no holder was killed")
        else:
            wanted -= self.plan.turns - self.victim.number
            took = self.take_over()
            if took > self.plan.ttl + LATE:
                faults.append(f"the next holder came {took:.2f} s after the kill")
        if len(self.begun()) != wanted:
            faults.append(f"expected {wanted} sections, and there were {len(self.begun())}")
        return faults

    def _look(self) -> None:
        waiting = [turn for turn in self.turns if turn.notes is None]
        for turn in [turn for turn in self.turns if not turn.over]:
            turn.look()
            if turn.over and turn.number < self.plan.turns and not turn.killed:
                self._due[turn.who] = clock() + self.plan.rest
        last: Turn | None = None
        for turn in self.begun():
            if turn in waiting and turn.notes:
                text = f"{turn.who} holds the lock under fence {turn.notes.fence}"
                self._show_event(text + (_after(last, turn) if last else ""))
            last = turn

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
        self._show_event(
            f"SIGKILL for {turn.who}'s holdfast run (pid {turn.pid}), half way through"
        )
        self._show_event(
            f"its worker died with it, {gone:.0f} ms later; the lease ends in {left:.2f} s"
        )


def _after(last: Turn, turn: Turn) -> str:
    if last.killed:
        return f", {turn.began - last.killed_at:.2f} s after {last.who} was killed"
    return f", {(turn.began - last.ended) * 1000:.0f} ms after {last.who} was done"
