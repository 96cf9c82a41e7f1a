"""What can happen in a run of the model of leases, and by which rules."""

from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.lab.model import nodes
from holdfast.lab.model.decisions import Habits, Record, quarantine
from holdfast.lab.model.nodes import Node, Outcome
from holdfast.lab.model.state import TRUSTED, Link, State


@dataclass(frozen=True, slots=True)
class Rules:
    """How clients count and nodes answer. The defaults are those that holdfast goes by."""

    votes_short: int = 0
    """Wrong: make do with so many votes fewer than a majority."""
    extend: Callable[[Node, int, int], Outcome] = nodes.extend
    """What a node does when it is told to extend somebody's lease."""
    from_reply: bool = False
    """Wrong: count validity from the last reply, not from before the question."""
    allow_for_drift: bool = True
    """Whether a holder believes in less than its ttl where clocks drift."""
    guard: bool = True
    """Whether a node that has restarted has no vote for a while."""
    in_order: bool = True
    """Whether what a client says to a node is executed in that order, a release included."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """What can happen. The defaults: two clients that acquire and let go."""

    clients: int = 2
    nodes: int = 3
    ttl: int = 2
    extension: int = 0
    """The ttl of a renewal; 0: nobody renews."""
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

    runtime: Runtime
    rules: Rules
    habits: Habits = field(init=False)

    def __post_init__(self) -> None:
        runtime, rules = self.runtime, self.rules
        habits = Habits(
            nodes=runtime.nodes,
            ttl=runtime.ttl,
            extension=runtime.extension,
            allowance=runtime.drift if rules.allow_for_drift else 0,
            votes_short=rules.votes_short,
            from_reply=rules.from_reply,
        )
        object.__setattr__(self, "habits", habits)

    def reconnected(self, link: Link) -> Link:
        """Whoever is connected to a node knows of its restart."""
        if not link.unaware:
            return link
        lasts = quarantine(self.runtime.ttl + self.habits.allowance, on=self.rules.guard)
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
