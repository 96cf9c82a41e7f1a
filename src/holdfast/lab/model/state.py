"""What the model of leases keeps of an instant. All times are ticks from now."""

from collections.abc import Callable
from typing import NamedTuple

from holdfast.lab.model.nodes import NOBODY, Node
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
"""The age of a question that nobody has asked."""

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
