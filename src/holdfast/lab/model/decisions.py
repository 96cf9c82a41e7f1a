"""What a client concludes from what it has heard: the core's own algorithms, run on a record.

The algorithms are generators, which cannot be copied or compared. So a state of the model keeps
what a client asked, when, and what it heard, and nothing more; here that is played to `Quorum`,
`acquire` and `extend` from the beginning. A mistake in any of them is a mistake in the model.

Instants are whole numbers of ticks, counted from when the client began to ask.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import NamedTuple

from holdfast.core.acquire import acquire
from holdfast.core.fanout import FanOut, Pause, Rounds
from holdfast.core.guard import RestartGuard
from holdfast.core.holding import extend
from holdfast.core.lease_state import LeaseState, LockSpec
from holdfast.core.messages import (
    DONE,
    MISSING,
    NOT_YOURS,
    Acquire,
    Answer,
    Extend,
    Granted,
)
from holdfast.core.quorum import Quorum
from holdfast.core.runtime import Runtime
from holdfast.errors import EngineUnavailable, LockLost

KEY, HOLDER, FENCE = "lock", "holder", 1

SAID: dict[str, Answer] = {
    "Granted": Granted(FENCE),
    "Done": DONE,
    "Missing": MISSING,
    "NotYours": NOT_YOURS,
}
"""What a node can say, by the names of the messages: states must be comparable."""


@dataclass(frozen=True, slots=True)
class Habits:
    """How a client asks and counts."""

    nodes: int
    ttl: int
    extension: int
    """The ttl of an extend."""
    allowance: int
    """What is taken off a ttl for the drift of clocks."""
    votes_short: int
    """Wrong: make do with so many votes fewer than a majority."""
    from_reply: bool
    """Wrong: take the instant of the last reply for the one at which it began to ask."""

    def drift(self, _ttl: float) -> float:
        """The allowance, as the core asks for it."""
        return self.allowance


class Record(NamedTuple):
    """What a client has heard of what it asked at instant 0."""

    said: tuple[str, ...]
    """By each node: a name in `SAID`, or nothing yet."""
    barred_until: tuple[float, ...]
    """By each node's restart guard."""
    now: int


class Extended(NamedTuple):
    """What came of an extend."""

    left: int
    """For how many ticks the lease is valid from now on; 0: it is lost."""
    renewed: bool
    repairs: tuple[int, ...]
    """The nodes that are told again."""


def quarantine(longest: int, *, on: bool) -> float:
    """For how many ticks a node has no vote with a client that has just noticed its restart."""
    guard = RestartGuard(longest, on=on)
    guard.met("one run", inf, False, 0)
    guard.met("the next", 0, False, 0)
    return guard.quarantined_until


@cache
def voters(habits: Habits, barred_until: tuple[float, ...]) -> tuple[int, ...]:
    """The nodes that are asked for the lock; none if there are not enough."""
    quorum = _quorum(habits, _Clock())
    _bar(quorum, barred_until)
    poll = _go_on(quorum.ask((_acquire(habits),), inf))
    return tuple(poll.nodes) if isinstance(poll, FanOut) else ()


@cache
def acquired(habits: Habits, record: Record) -> int:
    """For how many ticks a client that has heard this has the lock; 0: not, or not yet."""
    clock = _Clock()
    quorum = _quorum(habits, clock)
    rounds = quorum.ask((_acquire(habits),), inf)
    if not _play(quorum, _go_on(rounds), record).over:
        return 0
    now = 0 if habits.from_reply else record.now
    clock.now = now
    answers = _go_on(rounds)
    if isinstance(answers, FanOut):
        return 0  # it releases what it has
    clock.now = 0
    steps = acquire(_runtime(habits, clock), _spec(habits), HOLDER, timeout=0)
    next(steps)
    clock.now = now
    try:
        steps.send(answers)
    except StopIteration as end:
        lease: LeaseState = end.value
        return int(lease.remaining(now))
    return 0


@cache
def extended(habits: Habits, record: Record, left: int) -> Extended:
    """What a client concludes that has heard this, and has the lock for so many ticks anyway."""
    clock = _Clock()
    request = Extend(KEY, HOLDER, habits.extension, FENCE)
    quorum = _quorum(habits, clock)
    rounds = quorum.ask((request,), inf)
    _play(quorum, _go_on(rounds), record)
    now = 0 if habits.from_reply else record.now
    clock.now = now
    repairs = list[int]()
    while isinstance(answers := _go_on(rounds), FanOut):
        repairs += answers.nodes
    clock.now = 0
    runtime = _runtime(habits, clock)
    lease = LeaseState(runtime, _spec(habits), HOLDER, FENCE, now + left, inf)
    steps = extend(runtime, lease, habits.extension)
    next(steps)
    clock.now = now
    try:
        steps.send(answers)
    except StopIteration:
        return Extended(int(lease.remaining(now)), True, tuple(repairs))
    except (LockLost, EngineUnavailable):
        return Extended(int(lease.remaining(now)), False, tuple(repairs))
    raise TypeError("an extend asks once")


class _Clock:
    now = 0

    def __call__(self) -> float:
        return self.now


def _go_on(rounds: Rounds[Sequence[Answer]]) -> FanOut | Sequence[Answer]:
    """The next poll, or the answers at last."""
    try:
        poll = next(rounds)
    except StopIteration as end:
        answers: Sequence[Answer] = end.value
        return answers
    if isinstance(poll, Pause):
        raise TypeError("only a woken client pauses, and none was woken")
    return poll


def _play(quorum: Quorum, poll: FanOut | Sequence[Answer], record: Record) -> FanOut:
    """Let a poll hear what is on record. A restart may have been noticed since it was asked."""
    if not isinstance(poll, FanOut):
        raise TypeError(f"no node was asked: {poll}")
    _bar(quorum, record.barred_until)
    for node in poll.nodes:
        if record.said[node]:
            poll.take(node, (SAID[record.said[node]],))
    return poll


def _bar(quorum: Quorum, until: tuple[float, ...]) -> None:
    for guard, instant in zip(quorum.guards, until, strict=True):
        guard.quarantined_until = instant


def _quorum(habits: Habits, clock: _Clock) -> Quorum:
    names = [f"n{number}" for number in range(1, habits.nodes + 1)]
    guards = [RestartGuard(0) for _ in names]
    quorum = Quorum(names, guards, clock, clock, _least, habits.drift)
    quorum.size -= habits.votes_short
    return quorum


def _acquire(habits: Habits) -> Acquire:
    return Acquire(KEY, HOLDER, habits.ttl)


def _spec(habits: Habits) -> LockSpec:
    return LockSpec(KEY, "", habits.ttl, False, None, 1, 1)


def _runtime(habits: Habits, clock: _Clock) -> Runtime:
    return Runtime(
        clock=clock,
        uniform=_least,
        new_holder=lambda: HOLDER,
        emit=lambda _: None,
        mutex=nullcontext(),
        drift=habits.drift,
        min_ttl=0,
        ttl_step=0,
        subscribe=lambda _: None,
        unsubscribe=lambda _: None,
        wake=lambda _: None,
        notify_lost=lambda _: None,
    )


def _least(low: float, _high: float) -> float:
    return low
