"""What the model of leases keeps of an instant, what can happen, and by which rules.

All times are ticks from now.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.lab.model import nodes
from holdfast.lab.model.decisions import Habits, Record, quarantine
from holdfast.lab.model.nodes import NOBODY, Node, Outcome
from holdfast.lab.model.search import put

NAMES = "ABCDE"

ACQUIRE, EXTEND, REPAIR, RELEASE = "aerx"
"""Requests on their way."""

IDLE, ASKING, HOLDING = range(3)

WHOLE, DOUBTFUL, BROKEN_SINCE, BROKEN, SENTENCED, BACK = range(6)
"""What an operator did to a lease: nothing; took some of it while it was being acquired; broke it
since its holder asked what it is asking; broke it. A broken one whose holder asks to renew it must
not be renewed; if it is, it is back."""

QUIET = -1
"""The age of a question that was not asked."""

TRUSTED = -100
"""Instead of how long a quarantine lasts: there is none."""


class Link(NamedTuple):
    """What is between a client and a node."""

    pending: str = ""
    """Requests that may yet be executed, in their order."""
    said: str = ""
    """What the client has heard from the node to its present question."""
    barred: int = TRUSTED
    """For how long the node has no vote, by the client's clock. It goes below zero for as long as
    a question lasts that was asked before it ended."""
    unaware: bool = False
    """Whether the node has restarted, and the client has not noticed yet."""


class Site(NamedTuple):
    """A node, and what is between it and each client."""

    node: Node
    links: tuple[Link, ...]
    steady: bool
    """Whether its clock gains no tick any more."""

    def linked(self, who: int, link: Link) -> "Site":
        """With another link to a client."""
        return Site(self.node, put(self.links, who, link), self.steady)

    def with_node(self, node: Node) -> "Site":
        """With another lock."""
        return Site(node, self.links, self.steady)


class Client(NamedTuple):
    """What a client knows."""

    steady: bool
    """Whether its clock gains no tick any more."""
    phase: int = IDLE
    age: int = QUIET
    """How long ago it asked what it is asking."""
    left: int = 0
    """For how long it believes that it has the lock, by its own clock."""
    standing: int = WHOLE


class State(NamedTuple):
    """The whole model at an instant."""

    sites: tuple[Site, ...]
    clients: tuple[Client, ...]
    restarts: int
    """How many restarts are yet to come, at the most."""
    breaks: int
    """How often an operator is yet to break the lock, at the most."""

    def links(self, who: int) -> list[Link]:
        """What is between a client and each node."""
        return [site.links[who] for site in self.sites]

    def linked(self, who: int, change: Callable[[Link], Link]) -> "State":
        """With all links of a client changed."""
        return self.with_sites([site.linked(who, change(site.links[who])) for site in self.sites])

    def with_sites(self, sites: list[Site]) -> "State":
        """With other sites."""
        return State(tuple(sites), self.clients, self.restarts, self.breaks)

    def with_site(self, at: int, site: Site) -> "State":
        """With another site."""
        return State(put(self.sites, at, site), self.clients, self.restarts, self.breaks)

    def with_client(self, who: int, client: Client) -> "State":
        """With another client."""
        return State(self.sites, put(self.clients, who, client), self.restarts, self.breaks)

    def renamed(self, order: tuple[int, ...]) -> "State":
        """With the client that was `order[i]` as client `i`, and the nodes sorted."""
        sites = [
            Site(
                Node(order.index(node.owner), node.left) if node.owner != NOBODY else node,
                tuple([links[who] for who in order]),
                steady,
            )
            for node, links, steady in self.sites
        ]
        clients = tuple([self.clients[who] for who in order])
        return State(tuple(sorted(sites)), clients, self.restarts, self.breaks)


@dataclass(frozen=True, slots=True)
class Rules:
    """How clients count and nodes answer. The defaults are those that holdfast goes by."""

    votes_short: int = 0
    """Wrong: make do with so many votes fewer than a majority."""
    extend: Callable[[Node, int, int], Outcome] = nodes.extend
    """What a node does when it is asked to extend a lease."""
    from_reply: bool = False
    """Wrong: count validity from the last reply, not from before the question."""
    allow_for_drift: bool = True
    """Whether a holder believes in less than its ttl where clocks drift."""
    guard: bool = True
    """Whether a node that has restarted has no vote for a while."""
    in_order: bool = True
    """Whether what a client says to a node is executed in that order, a release included."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What can happen. The defaults: two clients that acquire and release."""

    clients: int = 2
    nodes: int = 3
    ttl: int = 2
    extension: int = 0
    """The ttl of a renewal; 0: no client renews."""
    late_releases: bool = False
    """Whether a release may be late or lost, and its sender ask again in the same name."""
    drift: int = 0
    """How many ticks a clock may be ahead of any other: 0 or 1."""
    restarts: int = 0
    """How often nodes restart, and forget."""
    breaks: int = 0
    """How often an operator breaks the lock, on all nodes at one instant."""
    rude_breaks: bool = False
    """Whether also while something is on its way."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A world and its rules, and what follows from both."""

    scope: Scope
    rules: Rules
    habits: Habits = field(init=False)

    def __post_init__(self) -> None:
        scope, rules = self.scope, self.rules
        habits = Habits(
            nodes=scope.nodes,
            ttl=scope.ttl,
            extension=scope.extension,
            allowance=scope.drift if rules.allow_for_drift else 0,
            votes_short=rules.votes_short,
            from_reply=rules.from_reply,
        )
        object.__setattr__(self, "habits", habits)

    def reconnected(self, link: Link) -> Link:
        """A client that connects to a node learns of its restart."""
        if not link.unaware:
            return link
        lasts = quarantine(self.scope.ttl + self.habits.allowance, on=self.rules.guard)
        return link._replace(unaware=False, barred=int(max(lasts, TRUSTED)))

    def sent(self, state: State, who: int, at: int, request: str) -> State:
        """A client says something to a node, behind what it has said before."""
        site = state.sites[at]
        link = self.reconnected(site.links[who])
        pending = link.pending.replace(request, "") + request
        return state.with_site(at, site.linked(who, link._replace(pending=pending)))

    def record(self, state: State, who: int) -> Record:
        """What a client knows of its present question."""
        now, links = max(state.clients[who].age, 0), state.links(who)
        said = tuple([link.said for link in links])
        return Record(said, tuple([now + link.barred for link in links]), now)
