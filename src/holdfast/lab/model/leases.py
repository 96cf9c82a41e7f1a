"""One lock over independent nodes, on clocks that tick: who believes to have it, and when.

What must hold, whatever is late, lost or restarted:

1. No two clients believe at the same instant that they have the lock. (An operator who breaks it
   suspends that for its holder, until it has renewed.)
2. A lease that an operator has broken, while nothing was on its way, is not renewed again.

Clients ask and count as `core` does (`decisions`), nodes answer as the scripts do (`nodes`). What
is said to a node is executed in that order, each at any later instant or never. Whoever holds or
asks stops that at any instant, and begins again. There is no end to a run: all that a state keeps
of time is relative, so there are not too many.

Runs that can show nothing new are left out:

- A yes is heard when it is said: who hears it later, or never, believes in no more time for that. A
  no that nobody hears, and an acquire that is refused, are as good as never executed.
- Whoever lets go frees the lock everywhere at once, and has nothing on its way any more. Late, a
  release or what was said before it only keeps others from acquiring; `late_releases` tries it.
- A node that restarts had a lock to forget. A client that asks nothing notices at once: the sooner
  a quarantine begins, the sooner it ends.
- Nodes are alike and clients are alike: states that only swap names are one.
"""

from collections.abc import Iterator
from itertools import permutations

from holdfast.lab.model import clients, environment, nodes
from holdfast.lab.model.clients import Move
from holdfast.lab.model.nodes import FREE
from holdfast.lab.model.setting import Rules, Runtime, Setting
from holdfast.lab.model.state import (
    ASKING,
    BACK,
    HOLDING,
    IDLE,
    NAMES,
    WHOLE,
    Client,
    Link,
    Site,
    State,
)


class Model:
    """All that can happen in a world, by these rules."""

    def __init__(self, runtime: Runtime, rules: Rules) -> None:
        self._setting = Setting(runtime, rules)

    def start(self) -> State:
        """Nobody asks for the lock, and every node is known to everybody."""
        runtime = self._setting.runtime
        steady = not runtime.drift
        site = Site(FREE, (Link(),) * runtime.clients, steady)
        all_nodes = (Client(steady),) * runtime.clients
        return State((site,) * runtime.nodes, all_nodes, runtime.restarts, runtime.breaks)

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
                words = "gives up" if client.phase == ASKING else "lets go"
                yield f"{NAMES[who]} {words}.", clients.end(setting, state, who)
            if client.phase == HOLDING and setting.runtime.extension:
                yield from clients.renews(setting, state, who)
        yield from environment.restarts(setting, state)
        yield from environment.breaks(setting, state)
        yield from environment.gains(setting, state)
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
