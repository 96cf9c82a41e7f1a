"""One lock over independent nodes, on clocks that tick: who believes to have it, and when.

What must hold, whatever is late, lost or restarted:

1. No two clients believe at the same instant that they have the lock. (An operator who breaks it
   suspends that for its holder, until it has renewed.)
2. A lease that an operator has broken, while nothing was on its way, is not renewed again.

Clients ask and count as `core` does (`decisions`), nodes answer as the scripts do (`nodes`). What
is sent to a node is executed in that order, each at any later instant or never. A client that holds
or asks stops that at any instant, and begins again. There is no end to a run: all that a state
keeps of time is relative, so there are not too many.

Runs that can show nothing new are left out:

- A yes is heard when it is said: who hears it later, or never, believes in no more time for that. A
  no that is not received, and an acquire that is refused, are as good as never executed.
- A release frees the lock on all nodes at once, and leaves nothing on its way. Late, a
  release or what was said before it only keeps others from acquiring; `late_releases` tries it.
- A node that restarts had a lock to forget. A client that asks nothing notices at once: the sooner
  a quarantine begins, the sooner it ends.
- Nodes are alike and clients are alike: states that only swap names are one.
"""

from collections.abc import Iterator
from itertools import permutations

from holdfast.lab.model import clients, nodes
from holdfast.lab.model.clients import Move
from holdfast.lab.model.nodes import FREE
from holdfast.lab.model.state import (
    ASKING,
    BACK,
    BROKEN,
    BROKEN_SINCE,
    DOUBTFUL,
    HOLDING,
    IDLE,
    NAMES,
    QUIET,
    WHOLE,
    Client,
    Link,
    Rules,
    Scope,
    Setting,
    Site,
    State,
)


class Model:
    """All that can happen in a world, by these rules."""

    def __init__(self, scope: Scope, rules: Rules) -> None:
        self._setting = Setting(scope, rules)

    def start(self) -> State:
        """No client asks for the lock, and every client knows every node."""
        scope = self._setting.scope
        steady = not scope.drift
        site = Site(FREE, (Link(),) * scope.clients, steady)
        idle = (Client(steady),) * scope.clients
        return State((site,) * scope.nodes, idle, scope.restarts, scope.breaks)

    def canonical(self, state: State) -> State:
        """The least of all states that differ by the names of nodes and clients."""
        return min(state.renamed(order) for order in permutations(range(len(state.clients))))

    def moves(self, state: State) -> Iterator[Move]:
        """Whatever can happen next, in words, and what is then."""
        setting = self._setting
        for who, client in enumerate(state.clients):
            for at in range(len(state.sites)):
                yield from clients.executes(setting, state, who, at)
            if client.phase == IDLE:
                yield from clients.asks(setting, state, who)
            else:
                words = "gives up" if client.phase == ASKING else "releases"
                yield f"{NAMES[who]} {words}.", clients.end(setting, state, who)
            if client.phase == HOLDING and setting.scope.extension:
                yield from clients.renews(setting, state, who)
        yield from _restarts(setting, state)
        yield from _breaks(setting, state)
        yield from _gains(setting, state)
        yield "A tick.", self._tick(state)

    def _tick(self, state: State) -> State:
        state = state.with_sites([site.with_node(nodes.tick(site.node)) for site in state.sites])
        for who in range(len(state.clients)):
            state = clients.tick(self._setting, state, who)
        return state


def one_at_a_time(state: State) -> str | None:
    """Promise 1."""
    believe = [
        NAMES[who]
        for who, client in enumerate(state.clients)
        if client.left and client.standing == WHOLE
    ]
    if len(believe) < 2:
        return None
    return f"{' and '.join(believe)} both believe that they have the lock"


def broken_for_good(state: State) -> str | None:
    """Promise 2."""
    for who, client in enumerate(state.clients):
        if client.standing == BACK:
            return f"{NAMES[who]} has renewed a lease that was broken before it asked"
    return None


def _gains(setting: Setting, state: State) -> Iterator[Move]:
    """A clock goes on by a tick that the others do not count, once in a run."""
    for at, site in enumerate(state.sites):
        if not site.steady:
            fast = Site(nodes.tick(site.node), site.links, steady=True)
            yield f"The clock of n{at + 1} gains a tick.", state.with_site(at, fast)
    for who, client in enumerate(state.clients):
        if not client.steady:
            then = state.with_client(who, client._replace(steady=True))
            yield f"The clock of {NAMES[who]} gains a tick.", clients.tick(setting, then, who)


def _restarts(setting: Setting, state: State) -> Iterator[Move]:
    """A node restarts, and has forgotten the lock. Or a client notices that one did."""
    for at, site in enumerate(state.sites):
        if state.restarts and site.node != FREE:
            links = zip(site.links, state.clients, strict=True)
            cut = tuple([_cut(setting, link, client) for link, client in links])
            then = state.with_site(at, Site(FREE, cut, site.steady))
            yield f"n{at + 1} restarts, empty.", then._replace(restarts=state.restarts - 1)
        for who, link in enumerate(site.links):
            if link.unaware:
                knows = site.linked(who, setting.reconnected(link))
                words = f"{NAMES[who]} notices that n{at + 1} has restarted."
                yield words, state.with_site(at, knows)


def _cut(setting: Setting, link: Link, client: Client) -> Link:
    """The link to a node that has just restarted."""
    link = link._replace(unaware=True)
    return setting.reconnected(link) if client.age == QUIET else link


def _breaks(setting: Setting, state: State) -> Iterator[Move]:
    """An operator breaks the lock on all nodes."""
    if not state.breaks or not (setting.scope.rude_breaks or _is_quiet(state)):
        return
    for who, client in enumerate(state.clients):
        if client.phase == HOLDING:
            standing = BROKEN if client.age == QUIET else BROKEN_SINCE
            state = state.with_client(who, client._replace(standing=standing))
        elif any(link.said for link in state.links(who)):
            state = state.with_client(who, client._replace(standing=DOUBTFUL))
    then = state.with_sites([site.with_node(FREE) for site in state.sites])
    words = "An operator breaks the lock on all nodes."
    yield words, then._replace(breaks=state.breaks - 1)


def _is_quiet(state: State) -> bool:
    """Whether nothing is on its way."""
    return all(client.age == QUIET for client in state.clients) and not any(
        link.pending for site in state.sites for link in site.links
    )
