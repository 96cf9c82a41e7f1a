"""Who holds a lock over independent nodes: a small model of which of them grant it to whom.

A client asks every node, and holds the lock once a majority has granted it. It writes, which is
exclusive; or it reads, beside other readers; or, in a variant, it takes one of two slots. What must
hold: a writer holds it alone, and of slots no more are taken than there are.

There is no clock in it, only what clocks are for: a node keeps a lease for at least as long as its
holder counts on it. So a lease expires, or is released, once its client is over: it has given up,
or does not count on the lock any more. A node may restart empty. With the guard, it has no vote
then as long as a client goes on whose lease it may have lost.

Runs that can show nothing new are left out:

- No acquire is refused: that changes nothing. No reply is lost: a grant that is not received only
  keeps others out, as does one that is executed late, or twice.
- A client that has a majority holds the lock at once.
- Nodes are alike, so they are kept sorted; clients begin in alphabetical order.

A node grants, releases and restores by the Redis engine's own scripts.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from holdfast.lab.model import Explorable, put
from holdfast.lab.model.nodes import Node

NAMES = "ABCDE"
SLOTS = 2

KINDS = {"R": "reads", "W": "writes", "S": "takes a slot"}


def grant(node: Node, name: str, kind: str) -> Node | None:
    """What a node is after it has granted the lock; None: it refuses."""
    granted, fence = node.acquire(name, 0, kind == "R")
    return None if fence is None else granted._replace(counter=0)


def release(node: Node, name: str) -> Node:
    """What a node is after a release."""
    return node.release(name)._replace(counter=0)


@dataclass(frozen=True, slots=True)
class Rules:
    """What nodes and clients do. The defaults are what the code does."""

    grant: Callable[[Node, str, str], Node | None] = grant
    release: Callable[[Node, str], Node] = release
    guard: bool = True
    """Whether a node that restarted has no vote for a while."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What can happen."""

    kinds: tuple[str, ...]
    """For each client, in the order in which they begin, what it wants: see `KINDS`."""
    nodes: int = 3
    restarts: int = 0
    """How many nodes of a run restart empty."""
    repairs: int = 0
    """How many leases of a run are restored on a node that has lost them."""


IDLE, ASKING, HOLDING, OVER = range(4)


class Client(NamedTuple):
    """How far a client has come."""

    phase: int
    kind: str


class Site(NamedTuple):
    """A node, and what the clients have of it."""

    node: Node
    asked: str = ""
    """The clients whose acquire was executed here."""
    votes: str = ""
    """Those that count on it."""
    lost: str = ""
    """Those that do, though it has restarted and lost their leases."""


class State(NamedTuple):
    """The whole model at an instant."""

    sites: tuple[Site, ...]
    clients: tuple[Client, ...]
    restarts: int
    repairs: int

    def holding(self) -> list[tuple[str, str]]:
        """The names and kinds of those that hold the lock."""
        pairs = zip(NAMES, self.clients, strict=False)
        return [(name, each.kind) for name, each in pairs if each.phase == HOLDING]


def holders_are_compatible(state: State) -> str | None:
    """All read, or one writes, or no more have slots than there are."""
    holding = state.holding()
    kinds = {kind for _, kind in holding}
    allowed = {"R": len(holding), "W": 1, "S": SLOTS}
    if len(kinds) <= 1 and all(len(holding) <= allowed[kind] for kind in kinds):
        return None
    return f"{', '.join(f'{name} {KINDS[kind]}' for name, kind in holding)}, all at once"


Move: TypeAlias = tuple[str, State]


@dataclass(frozen=True, slots=True)
class Exclusion(Explorable[State]):
    """All that can happen within a scope, by these rules."""

    judges = (holders_are_compatible,)
    scope: Scope
    rules: Rules

    def starts(self) -> Iterator[State]:
        """No client has begun, and all nodes are free."""
        for kinds in self.scope.kinds:
            clients = tuple(Client(IDLE, kind) for kind in kinds)
            sites = (Site(Node()),) * self.scope.nodes
            yield State(sites, clients, self.scope.restarts, self.scope.repairs)

    def moves(self, state: State) -> Iterator[Move]:
        for who, client in enumerate(state.clients):
            name = NAMES[who]
            for at in range(self.scope.nodes):
                if client.phase in (IDLE, ASKING):
                    yield from self._grants(state, who, at)
                if client.phase == HOLDING and state.repairs:
                    yield from self._repairs(state, who, at)
                if client.phase == OVER and name in state.sites[at].node.owner:
                    node = self.rules.release(state.sites[at].node, name)
                    yield f"{name}'s lease on n{at + 1} ends.", self._with(state, at, node=node)
            if client.phase == IDLE:
                break
            if client.phase != OVER:
                step = f"{name} gives up." if client.phase == ASKING else f"{name} is done."
                yield step, _over(state, who)
        if state.restarts:
            yield from (self._restarts(state, at) for at in range(self.scope.nodes))

    def _grants(self, state: State, who: int, at: int) -> Iterator[Move]:
        name, client, site = NAMES[who], state.clients[who], state.sites[at]
        node = None if name in site.asked else self.rules.grant(site.node, name, client.kind)
        if node is None:
            return
        begins = f"{name} {KINDS[client.kind]}. " if client.phase == IDLE else ""
        has_vote = not (self.rules.guard and site.lost)
        then = self._with(
            state,
            at,
            node=node,
            asked=_add(site.asked, name),
            votes=_add(site.votes, name) if has_vote else site.votes,
        )
        votes = sum(name in each.votes for each in then.sites)
        held = votes > self.scope.nodes // 2
        client = client._replace(phase=HOLDING if held else ASKING)
        step = f"{begins}n{at + 1} grants it to {name}"
        step += "." if has_vote else ", without a vote."
        step += f" {name} HOLDS it." if held else ""
        yield step, then._replace(clients=put(then.clients, who, client))

    def _repairs(self, state: State, who: int, at: int) -> Iterator[Move]:
        """A node restores the lease of a holder."""
        name, site = NAMES[who], state.sites[at]
        reads = state.clients[who].kind == "R"
        node = site.node.repair(name, 0, reads)._replace(counter=0)
        if node != site.node:
            then = self._with(state, at, node=node, asked=_add(site.asked, name))
            yield f"n{at + 1} restores {name}'s.", then._replace(repairs=state.repairs - 1)

    def _restarts(self, state: State, at: int) -> Move:
        site = state.sites[at]
        then = self._with(state, at, node=Node(), lost=site.votes)
        return f"n{at + 1} restarts empty.", then._replace(restarts=state.restarts - 1)

    def _with(self, state: State, at: int, **changed: Node | str) -> State:
        site = state.sites[at]._replace(**changed)  # type: ignore[arg-type]
        return state._replace(sites=put(state.sites, at, site))


def _over(state: State, who: int) -> State:
    """A client counts on nothing any more."""
    name, client = NAMES[who], state.clients[who]._replace(phase=OVER)
    sites = tuple(
        site._replace(votes=site.votes.replace(name, ""), lost=site.lost.replace(name, ""))
        for site in state.sites
    )
    return state._replace(sites=sites, clients=put(state.clients, who, client))


def _add(names: str, name: str) -> str:
    return "".join(sorted({*names, name}))
