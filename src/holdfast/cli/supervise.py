"""Supervising the command while it runs under the lease.

1. A lease that is not renewed expires at its deadline. `kill_after` before that the command's group
   gets TERM; before the deadline, with a margin, KILL. So no two commands run together.
2. On every wake-up the lease is checked first, since holdfast may have been suspended: a lost lease
   kills the command before it is continued.
3. Signals to holdfast are forwarded to the command's group.
4. A command suspended from the terminal (Ctrl-Z) suspends holdfast, as the shell expects; holdfast
   continued continues the command.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, field
from math import inf

import holdfast
from holdfast.cli import console
from holdfast.cli.child import Child, Ended
from holdfast.cli.console import Output
from holdfast.cli.options import OnLost
from holdfast.cli.signals import TERMINAL_STOPS, Signals, Terminal

# The lease's clock counts while the machine sleeps, and that of `wait` does not. After a resume a
# longer wait would end too late.
_LONGEST_WAIT = 1.0
# How long to wait for a killed group to end.
_KILL_WAIT = 1.0
_GROUP_POLL = 0.02
# The lease began at most this long before its supervision.
_A_MOMENT = 0.2
_FROM_KEYBOARD = (-signal.SIGINT, -signal.SIGQUIT)


@dataclass(frozen=True, slots=True)
class LossRule:
    """What to do if the lease cannot be renewed."""

    on_lost: OnLost
    kill_after: float
    """Seconds before the deadline at which the command gets its first signal."""
    max_hold: float = inf

    @property
    def margin(self) -> float:
        """Seconds before the deadline at which the command is killed, if it has not ended."""
        return self.kill_after if self.on_lost == "kill" else min(1.0, self.kill_after / 3)


@dataclass(slots=True)
class Supervisor:
    """Runs one command, already started, to its end."""

    _child: Child
    _lease: holdfast.Lease | holdfast.LeaseAll
    _shown: str
    _rule: LossRule
    _signals: Signals
    _terminal: Terminal
    _output: Output
    """One that does not wait."""
    _told: bool = False  # TERM was sent and the lease has not recovered since
    _killed: bool = False
    _cut_short: bool = False  # the command ended, or will, because of the lease
    _began: float = field(default_factory=time.monotonic)

    def may_start(self) -> bool:
        """Whether enough of the lease is left to start the command."""
        left = self._left()
        if left > self._rule.margin or self._rule.on_lost == "warn":
            return True
        self._output.error(f"{self._loss(left)}; the command was not started")
        return False

    def watch(self) -> int:
        """Wait for the command to end. Returns the exit code; -n: end by signal n."""
        self._lease.on_lost(lambda _: self._signals.wake())
        with self._signals.catching_stops():
            return self._watch()

    def _watch(self) -> int:
        while True:
            arrived = self._signals.received()  # before `poll`: a SIGCHLD after it must wake us
            state = self._child.poll()
            if isinstance(state, Ended):
                return self._after_the_end(state.code)
            seconds = self._heed_lease()
            for signum in arrived:
                self._forward(signum)
            if state is None:
                self._signals.wait(seconds)
            else:
                self._suspended(state.signum)

    def _left(self) -> float:
        return 0.0 if self._lease.lost else self._lease.remaining()

    def _heed_lease(self) -> float:
        """Act on what is left of the lease. Returns the seconds until the next check."""
        left = self._left()
        if self._rule.on_lost == "warn":
            if left == 0 and not self._told:
                self._told = True
                self._output.error(f"{self._loss(left)}; the command goes on (--on-lost=warn)")
        elif left <= self._rule.margin:
            self._kill(left)
        elif left <= self._rule.kill_after:
            self._ask_to_end(left)
            return min(_LONGEST_WAIT, left - self._rule.margin)
        else:
            self._told = False
            return min(_LONGEST_WAIT, left - self._rule.kill_after)
        return _LONGEST_WAIT

    def _ask_to_end(self, left: float) -> None:
        if self._told:
            return
        self._told = self._cut_short = True
        sent = self._child.send(signal.SIGTERM)
        self._child.send(signal.SIGCONT)  # a suspended command could not handle TERM
        done = "sent TERM to the command" if sent else "not permitted to stop the command"
        self._output.error(f"{self._loss(left)}; {done}")

    def _kill(self, left: float, whom: str = "the command") -> None:
        if self._killed:
            return
        self._killed = self._cut_short = True
        sent = self._child.send(signal.SIGKILL)
        done = f"killed {whom}" if sent else f"NOT permitted to kill {whom}: still running"
        self._output.error(f"{self._loss(left)}; {done}")

    def _loss(self, left: float) -> str:
        lease = f"the lease on {self._shown}"
        if time.monotonic() + left > self._began + self._rule.max_hold - _A_MOMENT:
            return f"{lease} ends after --max-hold {self._rule.max_hold:g} s, in {left:.2g} s"
        if left == 0:
            return f"{lease} is lost; another client may hold the lock"
        return f"{lease} was not renewed and expires in {left:.2g} s"

    def _forward(self, signum: int) -> None:
        if self._killed:
            return
        if signum == signal.SIGCONT:
            self._terminal.lend(self._child.pid)
        self._child.send(signum)

    def _suspended(self, signum: int) -> None:
        """The command was stopped by `signum`. Make sure that something can continue it."""
        child, terminal = self._child, self._terminal
        if signum == signal.SIGSTOP and terminal.lent_to(child.pid):
            signum = signal.SIGTSTP  # some programs do that on Ctrl-Z, after restoring the screen
        if signum not in TERMINAL_STOPS or not terminal.present:
            return  # stopped by `kill`, and continued by it; the lease is renewed meanwhile
        if signum != signal.SIGTSTP and terminal.in_foreground():
            terminal.lend(child.pid, asked=True)
            child.send(signal.SIGCONT)
            return
        if self._signals.stop_holdfast(signum):
            return  # continued: the SIGCONT that did it is forwarded, after a look at the lease
        if signum != signal.SIGTSTP:  # it would hold the lock forever
            child.send(signal.SIGKILL)
            self._output.error("the command waits for a terminal that it cannot get; killed it")
        elif not self._killed:
            terminal.lend(child.pid)
            child.send(signal.SIGCONT)

    def _after_the_end(self, code: int) -> int:
        if code in _FROM_KEYBOARD and self._terminal.lent_to(self._child.pid):
            # Ctrl-C went to the command's group alone. A script around holdfast must get it too;
            # holdfast itself ignores it, and ends by the same signal when all is released.
            os.kill(0, -code)
        if self._lease.lost and self._rule.on_lost != "warn" and not self._cut_short:
            self._cut_short = True
            self._output.error(f"{self._loss(0)}; the command has ended, perhaps after the loss")
        if not self._cut_short:
            return code
        self._clear_group()
        return console.LOST

    def _clear_group(self) -> None:
        """The command has ended because of the lease. What it has started must end, too."""
        give_up_at = time.monotonic() + (_KILL_WAIT if self._killed else self._rule.kill_after)
        while self._child.group_lives():
            over = time.monotonic() >= give_up_at
            if self._killed and over:
                return
            if not self._killed and (over or self._left() <= self._rule.margin):
                self._kill(self._left(), "what the command had left running")
                give_up_at = time.monotonic() + _KILL_WAIT
            time.sleep(_GROUP_POLL)
