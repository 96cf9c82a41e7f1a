"""Fencing tokens over independent nodes: a small model of who hears which counter from whom.

There is no time in it: a lock expires at any instant, a request is executed at any instant or
never, a reply is heard or lost. What must hold all the same:

1. Two committed acquisitions have different tokens.
2. One that began after another was committed has the greater token.
3. Any two share a node from which both heard their own token, and on each such node the later
   tenure has the greater one. (Why 1 and 2 hold; they are what a user relies on.)

Runs that can show nothing new are left out:

- A lock expires only as its node grants it next. Sooner, only its holder's raise would notice, and
  a raise that fails is one that is never executed. A release is an expiry.
- No acquire is refused: that changes nothing, as if it were never executed. None is executed again
  while its grant lasts: that is the first reply, heard late.
- A reply is heard when it is sent, or never. Hearing touches only the one who hears, so it can be
  moved back to that instant; that commits the sooner, and makes promise 2 harder to keep.
- For the same reason an attempt begins with its first grant, and stops listening, if it does, with
  the last grant that it hears. One that gives up is one that does nothing more.
- Nodes are alike, so they are kept sorted; so are attempts, so they begin in alphabetical order.

What a node does is what the Redis engine's own scripts do on a virtual server; `token_of` and
`is_committed` are those of `core.quorum`. A mistake in any of them is a mistake in the model.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import NamedTuple, TypeAlias

from holdfast.core.messages import Acquire, Granted, Raise, ToNode
from holdfast.core.quorum import is_committed, token_of
from holdfast.engines.redis.keys import keys_of
from holdfast.lab.model.decisions import KEY
from holdfast.lab.model.nodes import ask, new_server
from holdfast.lab.model.search import put
from holdfast.lab.simulator.driver import EPOCH

NAMES = "ABCDE"

BASE = int(EPOCH) * 1_000_000
"""What a counter of 0 is on a server: its own clock, which a proposal must be near."""

TTL = 1.0
"""Any would do: the server's clock stands."""


class Node(NamedTuple):
    """One lock on one node, and what a node does in one atomic step."""

    owner: str = ""
    """The holder of the lock; empty: it is free."""
    counter: int = 0

    def acquire(self, holder: str, proposed: int) -> tuple["Node", int | None]:
        """Grant the lock if it is free, and say the counter; to its holder, say it again."""
        return _executed(self, Acquire, holder, proposed)

    def raise_counter(self, holder: str, token: int) -> tuple["Node", int | None]:
        """Raise the counter to the token, for the lock's holder; None if it is greater already."""
        return _executed(self, Raise, holder, token)

    def release(self, holder: str) -> "Node":
        """Free the lock, if it is this holder's."""
        return self.expire() if self.owner == holder else self

    def expire(self) -> "Node":
        """Free the lock. The counter stays."""
        return Node("", self.counter)


@cache
def _executed(node: Node, kind: type, holder: str, number: int) -> tuple[Node, int | None]:
    """Have a server that is as the node carry out a request, and see how it is then."""
    server, (lock, fence, _) = new_server(), keys_of(KEY)
    server.data.set(fence, b"%d" % (BASE + node.counter))
    if node.owner:
        server.data.set(lock, node.owner.encode())
    request: ToNode = Raise(KEY, holder, BASE + number)
    if kind is Acquire:
        request = Acquire(KEY, holder, TTL, proposed=BASE + number)
    answer = ask(server, request)
    counter = int(server.data.get(fence) or 0) - BASE
    after = Node((server.data.get(lock) or b"").decode(), counter)
    return after, answer.fence - BASE if isinstance(answer, Granted) else None


@dataclass(frozen=True, slots=True)
class Rules:
    """How an attempt comes to its token. The defaults are those that `core.quorum` goes by."""

    token_of: Callable[[Collection[int]], int] = token_of
    """The token, from the counters of the grants that were heard."""
    is_committed: Callable[[Collection[int], int, int], bool] = is_committed
    """Whether these counters, the last heard from each node, commit the token, by this quorum."""
    raise_counter: Callable[[Node, str, int], tuple[Node, int | None]] = Node.raise_counter
    """What a node does when it is told to raise its counter; it answers None to say no."""
    heard_only: bool = True
    """Ask only the nodes whose grant was heard to raise their counters."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What can happen. The defaults: three attempts that hear every grant they are given."""

    attempts: int = 3
    nodes: int = 3
    proposals: tuple[int, ...] = (0, 1, 2)
    """What a node may be proposed for its counter; each node another, for each attempt."""
    late: bool = False
    """Whether an acquire may also be executed unheard, before or after its sender stopped."""
    repeats: int = 0
    """How many acquires of a run may be executed again: sent twice, as the first seemed lost."""

    @property
    def quorum(self) -> int:
        """How many nodes are a majority."""
        return self.nodes // 2 + 1


IDLE, LISTENING, RAISING, COMMITTED = range(4)


class Attempt(NamedTuple):
    """How far an acquisition has come."""

    phase: int = IDLE
    token: int = 0
    floor: int = 0
    """The greatest token that was committed before it began."""


class Site(NamedTuple):
    """A node, and what the attempts have to do with it."""

    node: Node
    order: str
    """The attempts, in the order of the tenures in which they heard their last from here."""
    pending: tuple[bool, ...]
    """For each attempt: whether its acquire may still be executed here for the first time."""
    heard: tuple[int, ...]
    """For each attempt: the counter that it last heard from here; 0: none."""


class State(NamedTuple):
    """The whole model at an instant."""

    sites: tuple[Site, ...]
    attempts: tuple[Attempt, ...]
    repeats: int

    def heard_by(self, who: int) -> list[int]:
        """The counters that an attempt heard, one from each node that it heard from."""
        return [site.heard[who] for site in self.sites if site.heard[who]]

    def committed(self) -> list[int]:
        """The attempts that are committed."""
        return [who for who, each in enumerate(self.attempts) if each.phase == COMMITTED]

    def hear(self, who: int, at: int, counter: int) -> "State":
        """An attempt hears a counter from a node."""
        node, order, pending, heard = self.sites[at]
        order = order.replace(NAMES[who], "") + NAMES[who]
        site = Site(node, order, pending, put(heard, who, counter))
        return State(put(self.sites, at, site), self.attempts, self.repeats)


Move: TypeAlias = tuple[str, State]


@dataclass(frozen=True, slots=True)
class Model:
    """All that can happen in a world, by these rules."""

    scope: Scope
    rules: Rules

    def start(self) -> State:
        """No attempt has begun, and no node has ever granted."""
        everyone = self.scope.attempts
        site = Site(Node(), "", (True,) * everyone, (0,) * everyone)
        return State((site,) * self.scope.nodes, (Attempt(),) * everyone, self.scope.repeats)

    def canonical(self, state: State) -> State:
        """The nodes in the one order that stands for all."""
        return State(tuple(sorted(state.sites)), state.attempts, state.repeats)

    def moves(self, state: State) -> Iterator[Move]:
        """Whatever can happen next, in words, and what is then."""
        if len(state.committed()) == self.scope.attempts:
            return  # nothing is left to be broken
        for who, attempt in enumerate(state.attempts):
            for at in range(self.scope.nodes):
                if attempt.phase <= LISTENING or self.scope.late:
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
        words = f"{site.node.owner}'s lock on n{at + 1} expires. " if site.node.owner else ""
        if attempt.phase == IDLE:
            tokens = (state.attempts[each].token for each in state.committed())
            attempt = Attempt(LISTENING, floor=max(tokens, default=0))
            words += f"{name} begins. "
        attempts = put(state.attempts, who, attempt)
        free = site.node.expire()
        for node in sorted({free.acquire(name, proposed)[0] for proposed in self.scope.proposals}):
            granted = Site(node, site.order, pending, site.heard)
            then = State(put(state.sites, at, granted), attempts, repeats)
            grants = f"{words}n{at + 1} grants {name} {node.counter}"
            if self.scope.late:
                yield f"{grants}, unheard.", then
            if attempt.phase == LISTENING and not site.heard[who]:
                then = then.hear(who, at, node.counter)
                counters = then.heard_by(who)
                if len(counters) < self.scope.nodes:
                    yield f"{grants}.", then
                if len(counters) >= self.scope.quorum:
                    token = self.rules.token_of(counters)
                    yield self._counts(then, who, token, f"{grants}. {name} stops: token {token}")

    def _raises(self, state: State, who: int, at: int) -> Iterator[Move]:
        """A node executes a raise: once, or again, which makes no difference."""
        name, (phase, token, _), site = NAMES[who], state.attempts[who], state.sites[at]
        if self.rules.heard_only and not site.heard[who]:
            return
        node, answer = self.rules.raise_counter(site.node, name, token)
        then, words = state, f"{name} raises n{at + 1} to {token}"
        if node != site.node:
            then = state._replace(sites=put(state.sites, at, site._replace(node=node)))
            yield f"{words}, unheard.", then
        if phase == RAISING and answer is not None and answer != site.heard[who]:
            words += f", and hears that it is at {answer}"
            yield self._counts(then.hear(who, at, answer), who, token, words)

    def _counts(self, state: State, who: int, token: int, words: str) -> Move:
        """An attempt that has its token looks whether it is committed."""
        name = NAMES[who]
        committed = self.rules.is_committed(state.heard_by(who), token, self.scope.quorum)
        attempt = Attempt(COMMITTED if committed else RAISING, token, state.attempts[who].floor)
        then = state._replace(attempts=put(state.attempts, who, attempt))
        return f"{words}. {name} has COMMITTED {token}." if committed else f"{words}.", then


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


def tenures_agree(state: State) -> str | None:
    """Promise 3."""
    for who, other in combinations(state.committed(), 2):
        name, token = NAMES[who], state.attempts[who].token
        rival, its = NAMES[other], state.attempts[other].token
        common = [s.order for s in state.sites if (s.heard[who], s.heard[other]) == (token, its)]
        if not common:
            return f"{name} and {rival} committed on no common node"
        if any((token > its) != (order.index(name) > order.index(rival)) for order in common):
            return f"{name} and {rival} have tokens that are not in the order of their tenures"
    return None
