"""What befalls the model of leases: clocks that gain, nodes that restart, operators."""

from collections.abc import Iterator

from holdfast.lab.model import clients, nodes
from holdfast.lab.model.clients import Move
from holdfast.lab.model.nodes import FREE
from holdfast.lab.model.setting import Setting
from holdfast.lab.model.state import (
    BROKEN,
    BROKEN_SINCE,
    DOUBTFUL,
    HOLDING,
    NAMES,
    QUIET,
    Client,
    Link,
    Site,
    State,
)


def gains(setting: Setting, state: State) -> Iterator[Move]:
    """A clock goes on by a tick that the others do not count, once in a run."""
    for at, site in enumerate(state.sites):
        if not site.steady:
            fast = Site(nodes.tick(site.node), site.links, steady=True)
            yield f"The clock of n{at + 1} gains a tick.", state.with_site(at, fast)
    for who, client in enumerate(state.clients):
        if not client.steady:
            then = state.with_client(who, client._replace(steady=True))
            yield f"The clock of {NAMES[who]} gains a tick.", clients.tick(setting, then, who)


def restarts(setting: Setting, state: State) -> Iterator[Move]:
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


def breaks(setting: Setting, state: State) -> Iterator[Move]:
    """An operator breaks the lock on all nodes."""
    if not state.breaks or not (setting.runtime.rude_breaks or _is_quiet(state)):
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
