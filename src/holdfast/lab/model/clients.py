"""What clients do in the model of leases: ask, receive, conclude, release."""

from collections.abc import Iterator
from typing import TypeAlias

from holdfast.lab.model import nodes
from holdfast.lab.model.decisions import Extended, acquired, extended, voters
from holdfast.lab.model.nodes import Node, Outcome
from holdfast.lab.model.state import (
    ACQUIRE,
    ASKING,
    BACK,
    BROKEN,
    BROKEN_SINCE,
    EXTEND,
    HOLDING,
    IDLE,
    NAMES,
    QUIET,
    RELEASE,
    REPAIR,
    SENTENCED,
    TRUSTED,
    WHOLE,
    Client,
    Link,
    Setting,
    State,
)

Move: TypeAlias = tuple[str, State]


def asks(setting: Setting, state: State, who: int) -> Iterator[Move]:
    """A client begins to acquire."""
    state = state.linked(who, setting.reconnected)
    asked = voters(setting.habits, setting.record(state, who).barred_until)
    for at in asked:
        state = setting.sent(state, who, at, ACQUIRE)
    if asked:
        client = state.clients[who]._replace(phase=ASKING, age=0)
        yield f"{NAMES[who]} asks for the lock.", state.with_client(who, client)


def renews(setting: Setting, state: State, who: int) -> Iterator[Move]:
    """A holder asks to renew, or draws its conclusion from what it has heard."""
    client = state.clients[who]
    if client.age != QUIET:
        result = extended(setting.habits, setting.record(state, who), client.left)
        yield _concluded(setting, state, who, result)
        return
    for at in range(setting.scope.nodes):
        state = setting.sent(state, who, at, EXTEND)
    standing = SENTENCED if client.standing == BROKEN else client.standing
    client = client._replace(age=0, standing=standing)
    yield f"{NAMES[who]} asks to renew.", state.with_client(who, client)


def _concluded(setting: Setting, state: State, who: int, result: Extended) -> Move:
    name, client = NAMES[who], state.clients[who]
    if not result.left:
        return f"{name} concludes that it has lost the lock.", end(setting, state, who)
    for at in result.repairs:
        state = setting.sent(state, who, at, REPAIR)
    state = state.linked(who, _unasked)
    client = client._replace(age=QUIET, left=result.left)
    if not result.renewed:
        standing = _ANSWERED.get(client.standing, client.standing)
        then = state.with_client(who, client._replace(standing=standing))
        return f"{name} stops listening.", then
    standing = _RENEWED.get(client.standing, WHOLE)
    repairs = "".join(f", and repairs n{at + 1}" for at in result.repairs)
    words = f"{name} HAS RENEWED {_for(result.left)}{repairs}."
    return words, state.with_client(who, client._replace(standing=standing))


def executes(setting: Setting, state: State, who: int, at: int) -> Iterator[Move]:
    """A node executes a request. What was said before it is lost."""
    site, client = state.sites[at], state.clients[who]
    link = setting.reconnected(site.links[who])
    for place, request in enumerate(link.pending):
        node, said = _outcome(setting, site.node, who, request)
        if said == "Held":
            continue
        before = "" if setting.rules.in_order else link.pending[:place]
        then = link._replace(pending=before + link.pending[place + 1 :])
        words = f"n{at + 1} executes {NAMES[who]}'s {_REQUESTS[request]}: {_SAID[said]}"
        present = client.age != QUIET and request == _QUESTIONS[client.phase]
        if present:
            heard = site.linked(who, then._replace(said=said)).with_node(node)
            yield _hears(setting, state.with_site(at, heard), who, words)
        if not present or (node != site.node and said == "Missing"):
            unheard = site.linked(who, then).with_node(node)
            late = ", unheard" if request in _QUESTIONS.values() else ""
            yield f"{words}{late}.", state.with_site(at, unheard)


def _outcome(setting: Setting, node: Node, who: int, request: str) -> Outcome:
    if request == ACQUIRE:
        return nodes.acquire(node, who, setting.scope.ttl)
    if request == EXTEND:
        return setting.rules.extend(node, who, setting.scope.extension)
    if request == REPAIR:
        return nodes.repair(node, who, setting.scope.extension)
    return nodes.release(node, who)


def _hears(setting: Setting, state: State, who: int, words: str) -> Move:
    """A client has heard a node. Enough grants are a lock, there and then."""
    client = state.clients[who]
    left = client.phase == ASKING and acquired(setting.habits, setting.record(state, who))
    if not left:
        return f"{words}.", state
    client = client._replace(phase=HOLDING, age=QUIET, left=left)
    words = f"{words}. {NAMES[who]} HAS THE LOCK {_for(left)}."
    return words, state.linked(who, _unasked).with_client(who, client)


def end(setting: Setting, state: State, who: int) -> State:
    """A client has the lock no more, and says so to all nodes."""
    state = state.with_client(who, Client(state.clients[who].steady))
    state = state.linked(who, lambda link: _unasked(link)._replace(pending=RELEASE))
    if setting.scope.late_releases:
        return state
    for at, site in enumerate(state.sites):
        freed = site.with_node(nodes.release(site.node, who)[0])
        freed = freed.linked(who, freed.links[who]._replace(pending=""))
        state = state.with_site(at, freed)
    return state


def tick(setting: Setting, state: State, who: int) -> State:
    """A client's clock goes on by a tick. What it believes ends there and then."""
    client = state.clients[who]
    age = client.age + 1 if client.age != QUIET else QUIET
    client = client._replace(age=age, left=max(client.left - 1, 0))
    state = state.with_client(who, client).linked(who, lambda link: _link_tick(link, age))
    over = age >= setting.scope.ttl if client.phase == ASKING else not client.left
    return end(setting, state, who) if client.phase != IDLE and over else state


_QUESTIONS = {ASKING: ACQUIRE, HOLDING: EXTEND}
_REQUESTS = {ACQUIRE: "acquire", EXTEND: "extend", REPAIR: "repair", RELEASE: "release"}
_SAID = {
    "Granted": "granted",
    "Done": "done",
    "Missing": "no such lock",
    "NotYours": "held by another client",
}

_ANSWERED = {BROKEN_SINCE: BROKEN}
_RENEWED = {BROKEN_SINCE: BROKEN, SENTENCED: BACK}
"""What becomes of what an operator has broken, as its holder concludes. Else it is whole again."""


def _for(ticks: int) -> str:
    return "for a tick" if ticks == 1 else f"for {ticks} ticks"


def _unasked(link: Link) -> Link:
    """Nothing is asked any more, and nothing heard."""
    return link._replace(said="", barred=link.barred if link.barred > 0 else TRUSTED)


def _link_tick(link: Link, age: int) -> Link:
    if link.barred == TRUSTED:
        return link
    ended = link.barred - 1 <= -max(age, 0)
    return link._replace(barred=TRUSTED if ended else link.barred - 1)
