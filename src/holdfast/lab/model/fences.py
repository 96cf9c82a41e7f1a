"""Fences over independent nodes: a small model of which counters each attempt receives.

An attempt writes, which is exclusive, or reads, beside other readers. There is no time in it: a
lock expires at any instant, a request is executed at any instant or never, a reply is received or
lost. What must hold all the same, of any two of which at least one writes:

1. Two committed acquisitions have different fences.
2. One that began after another was committed has the greater fence.
3. Any two share a node from which both received their own fence, and on each such node the later
   holder has the greater one. (Why 1 and 2 hold; they are what a user relies on.)

Runs that can show nothing new are left out:

- A lock expires only as its node grants it next. Sooner, only its holder's raise would notice, and
  a raise that fails is one that is never executed. A release is an expiry. Of readers, either all
  expire, so that the next one opens the node anew, or none: one that expired alone would only not
  raise.
- No acquire is refused: that changes nothing, as if it were never executed. None is executed again
  while its grant lasts: that is the first reply, received late. (A reader's may be: meanwhile
  another reader may have raised the counter.)
- A reply is received when it is sent, or never. Receiving changes the receiver alone, so it can be
  moved back to that instant; that commits the sooner, and makes promise 2 harder to keep.
- For the same reason an attempt begins with its first grant, and stops receiving, if it does, with
  the last grant that it receives. One that gives up is one that does nothing more.
- Nodes are alike, so they are kept sorted; attempts begin in alphabetical order.

`fence_of` and `is_committed` are those of `core.quorum`: a mistake there is a mistake in the model.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple, TypeAlias

from holdfast.core.quorum import fence_of, is_committed
from holdfast.lab.model import Explorable, put
from holdfast.lab.model.nodes import Node

NAMES = "ABCDE"


@dataclass(frozen=True, slots=True)
class Rules:
    """How an attempt comes to its fence. The defaults are those that `core.quorum` goes by."""

    fence_of: Callable[[Collection[int]], int] = fence_of
    """The fence, from the counters of the grants that were received."""
    is_committed: Callable[[Collection[int], int, int], bool] = is_committed
    """Whether these counters, the last of each node, commit the fence, by this quorum."""
    raise_counter: Callable[[Node, str, int], tuple[Node, int | None]] = Node.raise_counter
    """What a node does when it is asked to raise its counter; None: it refuses."""
    acquire: Callable[[Node, str, int, bool], tuple[Node, int | None]] = Node.acquire
    """What a node does when it is asked for the lock, or for a share."""
    repair: Callable[[Node, str, int, bool], Node] = Node.repair
    """What it does to restore a committed lease that it has lost."""
    granted_only: bool = True
    """Ask only the nodes whose grant was received to raise their counters."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What can happen. The defaults: three attempts that receive every grant."""

    kinds: tuple[str, ...] = ("WWW",)
    """For each attempt, in the order in which they begin, whether it writes (W) or reads (R)."""
    nodes: int = 3
    proposals: tuple[int, ...] = (0, 1, 2)
    """What a node may be proposed for its counter; each node another, for each attempt."""
    late: bool = False
    """Whether an acquire may be executed after its sender stopped, or its grant be lost."""
    repeats: int = 0
    """How many acquires of a run may be executed again: sent twice, as the first seemed lost."""

    repairs: int = 0
    """How many times in a run a node that has lost a lease restores it, in time or late."""

    @property
    def quorum(self) -> int:
        """How many nodes are a majority."""
        return self.nodes // 2 + 1


IDLE, RECEIVING, RAISING, COMMITTED = range(4)


class Attempt(NamedTuple):
    """How far an acquisition has come."""

    phase: int = IDLE
    fence: int = 0
    floor: int = 0
    """The greatest fence that was committed before it began, and that it must exceed."""
    reads: bool = False


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
    repairs: int = 0

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
        return self._replace(sites=put(self.sites, at, site))

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Any two committed attempts, of which at least one writes."""
        for who, other in combinations(self.committed(), 2):
            if not (self.attempts[who].reads and self.attempts[other].reads):
                yield who, other


def fences_grow(state: State) -> str | None:
    """Promises 1 and 2."""
    for who in state.committed():
        name, (_, fence, floor, _) = NAMES[who], state.attempts[who]
        if fence <= floor:
            return f"{name} committed {fence}, and began after {floor} had been committed"
    for who, other in state.pairs():
        fence = state.attempts[who].fence
        if fence == state.attempts[other].fence:
            return f"{NAMES[who]} and {NAMES[other]} both committed {fence}"
    return None


def holders_agree(state: State) -> str | None:
    """Promise 3."""
    for who, other in state.pairs():
        name, fence = NAMES[who], state.attempts[who].fence
        rival, its = NAMES[other], state.attempts[other].fence
        common = [
            site.order
            for site in state.sites
            if (site.received[who], site.received[other]) == (fence, its)
        ]
        if not common:
            return f"{name} and {rival} committed on no common node"
        if any((fence > its) != (order.index(name) > order.index(rival)) for order in common):
            return f"{name} and {rival} have fences that are not in the order of their holds"
    return None


Move: TypeAlias = tuple[str, State]


@dataclass(frozen=True, slots=True)
class Model(Explorable[State]):
    """All that can happen within a scope, by these rules."""

    judges = (fences_grow, holders_agree)
    scope: Scope
    rules: Rules

    def starts(self) -> Iterator[State]:
        """No attempt has begun, and no node has ever granted."""
        for kinds in self.scope.kinds:
            site = Site(Node(), "", (True,) * len(kinds), (0,) * len(kinds))
            attempts = tuple(Attempt(reads=kind == "R") for kind in kinds)
            sites = (site,) * self.scope.nodes
            yield State(sites, attempts, self.scope.repeats, self.scope.repairs)

    def moves(self, state: State) -> Iterator[Move]:
        if len(state.committed()) == len(state.attempts):
            return  # nothing is left to be broken
        for who, attempt in enumerate(state.attempts):
            for at in range(self.scope.nodes):
                if attempt.phase <= RECEIVING or self.scope.late:
                    yield from self._acquires(state, who, at)
                if attempt.phase >= RAISING:
                    yield from self._raises(state, who, at)
                if attempt.phase == COMMITTED and state.repairs:
                    yield from self._repairs(state, who, at)
            if attempt.phase == IDLE:
                break

    def _acquires(self, state: State, who: int, at: int) -> Iterator[Move]:
        """A node executes an acquire. An earlier holder has lost the lock there."""
        name, attempt, site = NAMES[who], state.attempts[who], state.sites[at]
        if not (site.pending[who] or state.repeats):
            return
        repeats = state.repeats - (not site.pending[who])
        pending = put(site.pending, who, False)
        begins = ""
        if attempt.phase == IDLE:
            committed = (state.attempts[each] for each in state.committed())
            fences = (each.fence for each in committed if not (each.reads and attempt.reads))
            attempt = attempt._replace(phase=RECEIVING, floor=max(fences, default=0))
            begins = f"{name} {'reads' if attempt.reads else 'begins'}. "
        attempts = put(state.attempts, who, attempt)
        for expires, node in self._granted(site.node, name, at, attempt.reads):
            step = expires + begins
            granted = Site(node, site.order, pending, site.received)
            then = State(put(state.sites, at, granted), attempts, repeats, state.repairs)
            grants = f"{step}n{at + 1} grants {name} {node.counter}"
            if self.scope.late:
                yield f"{grants}, reply lost.", then
            if attempt.phase == RECEIVING and not site.received[who]:
                then = then.receive(who, at, node.counter)
                counters = then.received_by(who)
                if len(counters) < self.scope.nodes:
                    yield f"{grants}.", then
                if len(counters) >= self.scope.quorum:
                    fence = self.rules.fence_of(counters)
                    yield self._counts(then, who, fence, f"{grants}. {name} stops: fence {fence}")

    def _granted(self, node: Node, name: str, at: int, reads: bool) -> Iterator[tuple[str, Node]]:
        """A node that has granted the lock: after the present holders' leases have expired, and
        beside them where all read."""
        owners = " and ".join(node.owner)
        free = [(f"{owners}'s lock on n{at + 1} expires. " if owners else "", node.expire())]
        beside = [("", node)] if node.shared and reads else []
        for step, before in free + beside:
            proposals = self.scope.proposals
            after = {self.rules.acquire(before, name, each, reads)[0] for each in proposals}
            for granted in sorted(after):
                yield step, granted

    def _repairs(self, state: State, who: int, at: int) -> Iterator[Move]:
        """A node that has lost a committed lease restores it, perhaps late, for its holder."""
        name, (_, fence, _, reads), site = NAMES[who], state.attempts[who], state.sites[at]
        for before in {site.node, site.node.expire()}:
            node = self.rules.repair(before, name, fence, reads)
            if node not in (before, site.node):
                sites = put(state.sites, at, site._replace(node=node))
                then = state._replace(sites=sites, repairs=state.repairs - 1)
                yield f"{name}'s lease on n{at + 1} is restored: {node.counter}.", then

    def _raises(self, state: State, who: int, at: int) -> Iterator[Move]:
        """A node executes a raise: once, or again, which makes no difference."""
        name, (phase, fence, *_), site = NAMES[who], state.attempts[who], state.sites[at]
        if self.rules.granted_only and not site.received[who]:
            return
        node, answer = self.rules.raise_counter(site.node, name, fence)
        then, step = state, f"{name} raises n{at + 1} to {fence}"
        if node != site.node:
            then = state._replace(sites=put(state.sites, at, site._replace(node=node)))
            yield f"{step}, reply lost.", then
        if phase == RAISING and answer is not None and answer != site.received[who]:
            step += f", and receives {answer}"
            yield self._counts(then.receive(who, at, answer), who, fence, step)

    def _counts(self, state: State, who: int, fence: int, step: str) -> Move:
        """An attempt that has its fence checks whether it is committed."""
        name = NAMES[who]
        committed = self.rules.is_committed(state.received_by(who), fence, self.scope.quorum)
        phase = COMMITTED if committed else RAISING
        attempt = state.attempts[who]._replace(phase=phase, fence=fence)
        then = state._replace(attempts=put(state.attempts, who, attempt))
        return f"{step}. {name} has COMMITTED {fence}." if committed else f"{step}.", then
