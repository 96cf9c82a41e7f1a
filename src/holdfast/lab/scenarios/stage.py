"""The stage of a scenario: its servers, network, clients and registers, and what happened."""

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

from holdfast.core.records import Label
from holdfast.lab.history import Event, Kind
from holdfast.lab.scenarios.actors import Actor, Log
from holdfast.lab.scenarios.client_process import KEY, Recipe, Role
from holdfast.lab.servers.link import Link
from holdfast.lab.servers.redis import AppendOnly, RedisServer


class Node(RedisServer):
    """A server whose faults are recorded."""

    def __init__(self, name: str, log: Log, append_only: AppendOnly, *, own_clock: bool) -> None:
        super().__init__(append_only=append_only, own_clock=own_clock)
        self.name = name
        self._log = log

    def freeze(self) -> None:
        super().freeze()
        self._log.note(self.name, Kind.PAUSED)

    def thaw(self) -> None:
        self._log.note(self.name, Kind.RESUMED)
        super().thaw()

    def crash(self) -> None:
        self.kill()
        self._log.note(self.name, Kind.CRASHED)

    def come_back(self) -> None:
        self.start()
        kept = self.command("DBSIZE")
        self._log.note(self.name, Kind.STARTED, "with its data" if kept else "it has lost its data")

    def jump(self, seconds: float) -> None:
        self._log.note(self.name, Kind.JUMPED, f"{seconds:+g} s")
        self.clock.jump(seconds)

    def promote(self) -> None:
        super().promote()
        self._log.note(self.name, Kind.NOTED, "is the master now")

    def vote(self) -> tuple[int, float] | None:
        """The process that holds the lock here, and for how many seconds; None if it is free."""
        label = Label.of(str(self.command("GET", KEY)))
        left = self.command("PTTL", KEY)
        return (label.pid, left / 1000) if label and isinstance(left, int) and left > 0 else None

    def uptime(self) -> int:
        """For how many whole seconds it has been up."""
        return int(self.info("server")["uptime_in_seconds"])


def quorum_of(nodes: Iterable[Node | Link], options: str = "restart_guard=off") -> str:
    """The URL of some nodes together."""
    return f"redlock://{','.join(node.address for node in nodes)}?{options}"


class Links:
    """The network between one client and each of its nodes, which can be cut and healed."""

    def __init__(self, who: str, links: Mapping[str, Link], log: Log) -> None:
        self._who, self._links, self._log = who, links, log

    def url(self, options: str) -> str:
        return quorum_of(self._links.values(), options)

    def cut(self, *nodes: Node) -> None:
        """Lose everything between the client and these nodes."""
        for node in nodes:
            self._links[node.name].cut()
        self._log.note(self._who, Kind.CUT, peer=", ".join(node.name for node in nodes))

    def heal(self, *nodes: Node) -> None:
        for node in nodes:
            self._links[node.name].heal()
        self._log.note(self._who, Kind.HEALED, peer=", ".join(node.name for node in nodes))


REGISTERS = "registers.db"


class Stage(Log):
    """The servers, clients and files of one run; nothing of it is left afterwards."""

    def __init__(self, show_event: Callable[[Event], None]) -> None:
        super().__init__(show_event)
        self._open = ExitStack()
        self._folder = Path(self._open.enter_context(tempfile.TemporaryDirectory()))

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, *exc: object) -> None:
        self._open.close()

    def node(
        self, name: str = "redis", *, append_only: AppendOnly = "no", own_clock: bool = False
    ) -> Node:
        node = Node(name, self, append_only, own_clock=own_clock)
        self._open.enter_context(node)
        self._names[node.address] = name
        return node

    def nodes(
        self, count: int, *, append_only: AppendOnly = "no", own_clock: bool = False
    ) -> list[Node]:
        """Start independent servers: n1, n2, ..."""
        names = [f"n{number}" for number in range(1, count + 1)]
        return [self.node(name, append_only=append_only, own_clock=own_clock) for name in names]

    def pair(self) -> tuple[Node, Node, Link]:
        """Start a master and its replica, and the network between them."""
        master, replica = self.node("master"), self.node("replica")
        link = self.link(master)
        replica.follow(master, link.port)
        return master, replica, link

    def sqlite(self) -> str:
        """The URL of an SQLite file of this run."""
        return f"sqlite://{quote(str(self._folder / 'locks.db'))}"

    def client(
        self,
        who: str,
        url: str,
        *,
        ttl: float,
        renew: bool = True,
        recipe: Recipe = Recipe.HOLDFAST,
    ) -> Actor:
        registers = str(self._folder / REGISTERS)
        role = Role(who, url, ttl, renew, recipe, registers, self._began)
        actor = Actor(role, self)
        self._actors.append(actor)
        self._open.callback(actor.close)
        return actor

    def links(self, who: str, nodes: Sequence[Node]) -> Links:
        """A network of this client's own, to each of these nodes."""
        return Links(who, {node.name: self.link(node) for node in nodes}, self)

    def link(self, node: Node) -> Link:
        """A way to this node that can be cut."""
        link = self._open.enter_context(Link(node.port))
        self._names[link.address] = node.name
        return link

    def show_votes(self, nodes: Iterable[Node]) -> None:
        """Note who has the vote of which node, for the picture."""
        clients = {actor.pid: actor.who for actor in self._actors}
        for node in nodes:
            now, vote = self.now(), node.vote()
            if vote is not None:
                pid, left = vote
                self.record(Event(now, node.name, Kind.NOTED, peer=clients[pid], until=now + left))
