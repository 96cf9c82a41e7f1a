"""Fencing tokens over independent nodes: a small model of which counters each attempt receives.

There is no time in it: a lock expires at any instant, a request is executed at any instant or
never, a reply is received or lost. What must hold all the same:

1. Two committed acquisitions have different tokens.
2. One that began after another was committed has the greater token.
3. Any two share a node from which both received their own token, and on each such node the later
   holder has the greater one. (Why 1 and 2 hold; they are what a user relies on.)

Runs that can show nothing new are left out:

- A lock expires only as its node grants it next. Sooner, only its holder's raise would notice, and
  a raise that fails is one that is never executed. A release is an expiry.
- No acquire is refused: that changes nothing, as if it were never executed. None is executed again
  while its grant lasts: that is the first reply, received late.
- A reply is received when it is sent, or never. Receiving changes the receiver alone, so it can be
  moved back to that instant; that commits the sooner, and makes promise 2 harder to keep.
- For the same reason an attempt begins with its first grant, and stops receiving, if it does, with
  the last grant that it receives. One that gives up is one that does nothing more.
- Nodes are alike, so they are kept sorted; so are attempts, so they begin in alphabetical order.

`token_of` and `is_committed` are those of `core.quorum`: a mistake there is a mistake in the model.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple, TypeAlias, TypeVar

from holdfast.core.quorum import is_committed, token_of
from holdfast.lab.model.nodes import Node

T = TypeVar("T")

NAMES = "ABCDE"


@dataclass(frozen=True, slots=True)
class Rules:
    """How an attempt comes to its token. The defaults are those that `core.quorum` goes by."""

    token_of: Callable[[Collection[int]], int] = token_of
    """The token, from the counters of the grants that were received."""
    is_committed: Callable[[Collection[int], int, int], bool] = is_committed
    """Whether these counters, the last of each node, commit the token, by this quorum."""
    raise_counter: Callable[[Node, str, int], tuple[Node, int | None]] = Node.raise_counter
    """What a node does when it is asked to raise its counter; None: it refuses."""
    granted_only: bool = True
    """Ask only the nodes whose grant was received to raise their counters."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What can happen. The defaults: three attempts that receive every grant."""

    attempts: int = 3
    nodes: int = 3
    proposals: tuple[int, ...] = (0, 1, 2)
    """What a node may be proposed for its counter; each node another, for each attempt."""
    late: bool = False
    """Whether an acquire may be executed after its sender stopped, or its grant be lost."""
    repeats: int = 0
    """How many acquires of a run may be executed again: sent twice, as the first seemed lost."""

    @property
    def quorum(self) -> int:
        """How many nodes are a majority."""
        return self.nodes // 2 + 1


IDLE, RECEIVING, RAISING, COMMITTED = range(4)


class Attempt(NamedTuple):
    """How far an acquisition has come."""

    phase: int = IDLE
    token: int = 0
    floor: int = 0
    """The greatest token that was committed before it began."""


class Site(NamedTuple):
    """A node, and what the attempts sent to it and received from it."""

    node: Node
    order: str
    """The attempts, in the order in which each held the lock here when it last received a reply."""
    pending: tuple[bool, ...]
    """For each attempt: whether its acquire may still be executed here for the first time."""
    received: tuple[int, ...]
    """For each attempt: the counter that it last received from here; 0: none."""


class State(NamedTuple):
    """The whole model at an instant."""

    sites: tuple[Site, ...]
    attempts: tuple[Attempt, ...]
    repeats: int

    def received_by(self, who: int) -> list[int]:
        """The counters that an attempt received, the last one of each node."""
        return [site.received[who] for site in self.sites if site.received[who]]

    def committed(self) -> list[int]:
        """The attempts that are committed."""
        return [who for who, each in enumerate(self.attempts) if each.phase == COMMITTED]

    def receive(self, who: int, at: int, counter: int) -> "State":
        """An attempt receives a counter from a node."""
        node, order, pending, received = self.sites[at]
        order = order.replace(NAMES[who], "") + NAMES[who]
        site = Site(node, order, pending, put(received, who, counter))
        return State(put(self.sites, at, site), self.attempts, self.repeats)


Move: TypeAlias = tuple[str, State]


@dataclass(frozen=True, slots=True)
class Model:
    """All that can happen within a scope, by these rules."""

    scope: Scope
    rules: Rules

    def start(self) -> State:
        """No attempt has begun, and no node has ever granted."""
        attempts = self.scope.attempts
        site = Site(Node(), "", (True,) * attempts, (0,) * attempts)
        return State((site,) * self.scope.nodes, (Attempt(),) * attempts, self.scope.repeats)

    def canonical(self, state: State) -> State:
        """The nodes in the one order that stands for all."""
        return State(tuple(sorted(state.sites)), state.attempts, state.repeats)

    def moves(self, state: State) -> Iterator[Move]:
        """Whatever can happen next, in words, and the state after it."""
        if len(state.committed()) == self.scope.attempts:
            return  # nothing is left to be broken
        for who, attempt in enumerate(state.attempts):
            for at in range(self.scope.nodes):
                if attempt.phase <= RECEIVING or self.scope.late:
                    yield from self._acquires(state, who, at)
                if attempt.phase >= RAISING:
                    yield from self._raises(state, who, at)
            if attempt.phase == IDLE:
                break

    def _acquires(self, state: State, who: int, at: int) -> Iterator[Move]:
        """A node executes an acquire. An earlier holder has lost the lock there."""
        name, attempt, site = NAMES[who], state.attempts[who], state.sites[at]
        if not (site.pending[who] or state.repeats):
            return
        repeats = state.repeats - (not site.pending[who])
        pending = put(site.pending, who, False)
        step = f"{site.node.owner}'s lock on n{at + 1} expires. " if site.node.owner else ""
        if attempt.phase == IDLE:
            tokens = (state.attempts[each].token for each in state.committed())
            attempt = Attempt(RECEIVING, floor=max(tokens, default=0))
            step += f"{name} begins. "
        attempts = put(state.attempts, who, attempt)
        free = site.node.expire()
        for node in sorted({free.acquire(name, proposed)[0] for proposed in self.scope.proposals}):
            granted = Site(node, site.order, pending, site.received)
            then = State(put(state.sites, at, granted), attempts, repeats)
            grants = f"{step}n{at + 1} grants {name} {node.counter}"
            if self.scope.late:
                yield f"{grants}, reply lost.", then
            if attempt.phase == RECEIVING and not site.received[who]:
                then = then.receive(who, at, node.counter)
                counters = then.received_by(who)
                if len(counters) < self.scope.nodes:
                    yield f"{grants}.", then
                if len(counters) >= self.scope.quorum:
                    token = self.rules.token_of(counters)
                    yield self._counts(then, who, token, f"{grants}. {name} stops: token {token}")

    def _raises(self, state: State, who: int, at: int) -> Iterator[Move]:
        """A node executes a raise: once, or again, which makes no difference."""
        name, (phase, token, _), site = NAMES[who], state.attempts[who], state.sites[at]
        if self.rules.granted_only and not site.received[who]:
            return
        node, answer = self.rules.raise_counter(site.node, name, token)
        then, step = state, f"{name} raises n{at + 1} to {token}"
        if node != site.node:
            then = state._replace(sites=put(state.sites, at, site._replace(node=node)))
            yield f"{step}, reply lost.", then
        if phase == RAISING and answer is not None and answer != site.received[who]:
            step += f", and receives {answer}"
            yield self._counts(then.receive(who, at, answer), who, token, step)

    def _counts(self, state: State, who: int, token: int, step: str) -> Move:
        """An attempt that has its token checks whether it is committed."""
        name = NAMES[who]
        committed = self.rules.is_committed(state.received_by(who), token, self.scope.quorum)
        attempt = Attempt(COMMITTED if committed else RAISING, token, state.attempts[who].floor)
        then = state._replace(attempts=put(state.attempts, who, attempt))
        return f"{step}. {name} has COMMITTED {token}." if committed else f"{step}.", then


def tokens_grow(state: State) -> str | None:
    """Promises 1 and 2."""
    owner_of = dict[int, str]()
    for who in state.committed():
        name, (_, token, floor) = NAMES[who], state.attempts[who]
        if token <= floor:
            return f"{name} committed {token}, and began after {floor} had been committed"
        if token in owner_of:
            return f"{owner_of[token]} and {name} both committed {token}"
        owner_of[token] = name
    return None


def holders_agree(state: State) -> str | None:
    """Promise 3."""
    for who, other in combinations(state.committed(), 2):
        name, token = NAMES[who], state.attempts[who].token
        rival, its = NAMES[other], state.attempts[other].token
        common = [
            site.order
            for site in state.sites
            if (site.received[who], site.received[other]) == (token, its)
        ]
        if not common:
            return f"{name} and {rival} committed on no common node"
        if any((token > its) != (order.index(name) > order.index(rival)) for order in common):
            return f"{name} and {rival} have tokens that are not in the order of their holds"
    return None


def put(row: tuple[T, ...], at: int, value: T) -> tuple[T, ...]:
    """The row with one place changed."""
    return (*row[:at], value, *row[at + 1 :])


Judge: TypeAlias = Callable[[State], str | None]
"""Which promise a state breaks, and how; None: none."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise, and a shortest way to it."""

    what: str
    trace: tuple[str, ...]

    def __str__(self) -> str:
        steps = (f"{number:3}. {step}" for number, step in enumerate(self.trace, 1))
        return "\n".join((f"{self.what}:", *steps))


@dataclass(frozen=True, slots=True)
class Explored:
    """What an exploration saw. Without a violation, it saw everything."""

    states: int
    violation: Violation | None


def explore(model: Model, *judges: Judge) -> Explored:
    """Go through every state that can be reached, until a judge objects to one."""
    start = model.canonical(model.start())
    came_from: dict[State, State | None] = {start: None}
    queue = [start]
    for state in queue:  # grows as it goes
        for _, found in model.moves(state):
            then = model.canonical(found)
            if then in came_from:
                continue
            came_from[then] = state
            queue.append(then)
            if any(judge(then) for judge in judges):
                return Explored(len(came_from), _violation(model, judges, then, came_from))
    return Explored(len(came_from), None)


def _violation(
    model: Model, judges: tuple[Judge, ...], end: State, came_from: dict[State, State | None]
) -> Violation:
    """The way from the start to `end`, in words. Sorted states lose the names of nodes, so the way
    is walked once more, unsorted."""
    path = [end]
    while (before := came_from[path[-1]]) is not None:
        path.append(before)
    state, *rest = model.start(), *path[-2::-1]
    trace = list[str]()
    for follows in rest:
        moves = model.moves(state)
        step, state = next(move for move in moves if model.canonical(move[1]) == follows)
        trace.append(step)
    what = next(filter(None, (judge(state) for judge in judges)))
    return Violation(what, tuple(trace))
