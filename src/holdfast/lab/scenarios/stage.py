"""The stage of a scenario: its servers, network and clients, and what happened there. Clients get
orders, are stopped, and are killed."""

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from multiprocessing.connection import Pipe, wait
from pathlib import Path
from typing import Any
from urllib.parse import quote

from holdfast.core.records import Label
from holdfast.lab.history import Event, History, Kind
from holdfast.lab.scenarios.client_process import KEY, Recipe, Role, Worker
from holdfast.lab.servers.link import Link
from holdfast.lab.servers.process import bound_to_us, suspend
from holdfast.lab.servers.redis import AppendOnly, RedisServer

TIME_LIMIT = 20.0
"""How long anything may take on a busy machine, in seconds."""


class StageFailed(RuntimeError):
    """The story was aborted, so it has no outcome."""


class Actor:
    """One client. Each method but `begins_to_acquire` waits for what comes of it, and gives it."""

    def __init__(self, role: Role, stage: "Stage") -> None:
        self.who = role.who
        self.ended = False
        """Whether its process has, and all that it reported was received."""
        self._stage = stage
        self._reported: list[Event] = []
        self.pipe, theirs = Pipe()
        with theirs:
            program = f"from {Worker.__module__} import main; main({theirs.fileno()})"
            self._process = subprocess.Popen(  # noqa: S603 - it is our own program
                [*bound_to_us(), sys.executable, "-P", "-c", program],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for us
            )
        self.pipe.send(role)

    @property
    def pid(self) -> int:
        return self._process.pid

    def acquires(self, timeout: float = TIME_LIMIT) -> Event:
        """Ask for the lock, and get it."""
        outcome = self.tries(timeout)
        if outcome.kind is not Kind.GRANTED:
            raise StageFailed(f"{self.who} did not get the lock: {outcome.note}")
        return outcome

    def tries(self, timeout: float) -> Event:
        """Ask for the lock, for at most `timeout` seconds; granted or refused."""
        self.begins_to_acquire(timeout)
        return self.reports(Kind.GRANTED, Kind.REFUSED)

    def begins_to_acquire(self, timeout: float = TIME_LIMIT) -> None:
        """Ask for the lock; the outcome is reported later."""
        self._order(Worker.acquire, timeout)

    def extends(self) -> Event:
        """Let the lease last its whole time from now."""
        self._order(Worker.extend)
        return self.reports(Kind.EXTENDED)

    def releases(self) -> Event:
        """Release the lock, or learn that there is nothing to release."""
        self._order(Worker.release)
        return self.reports(Kind.RELEASED, Kind.NOTED)

    def checks(self) -> Event:
        """Check whether the lock is still held."""
        self._order(Worker.check)
        return self.reports(Kind.NOTED)

    def writes(self, value: str, *, unchecked: bool = False) -> Event:
        """Write to both registers, if the lock is still held; `unchecked`: in any case."""
        self._order(Worker.write, value, unchecked)
        outcome = self.reports(Kind.WROTE, Kind.REJECTED, Kind.NOTED)
        return outcome if outcome.kind is Kind.NOTED else self.reports(Kind.WROTE)  # the plain one

    def reports(self, *kinds: Kind) -> Event:
        """The next event of these kinds that the client reports."""
        what = f"event of {self.who} ({' or '.join(kinds)})"
        self._stage.wait_until(lambda: self.has_reported(*kinds), what)
        found = next(event for event in self._reported if event.kind in kinds)
        self._reported.remove(found)
        return found

    def has_reported(self, *kinds: Kind) -> bool:
        """Whether it has reported such an event, which was not asked for yet."""
        found = any(event.kind in kinds for event in self._reported)
        if self.ended and not found:
            raise StageFailed(f"{self.who}'s process has ended")
        return found

    def receive(self) -> list[Event]:
        """What it has reported since it was last looked at."""
        received: list[Event] = []
        try:
            while not self.ended and self.pipe.poll():
                received.append(self.pipe.recv())
        except (EOFError, OSError):  # its end of the pipe is closed
            self.ended = True
        self._reported += received
        return received

    def stop(self) -> None:
        suspend(self._process)
        self._stage.note(self.who, Kind.PAUSED)

    def wake(self) -> None:
        self._stage.note(self.who, Kind.RESUMED)
        self._process.send_signal(signal.SIGCONT)

    def die(self) -> None:
        self.close()
        self._stage.note(self.who, Kind.CRASHED)

    def close(self) -> None:
        """End its process, and record what it has reported until then."""
        self._process.kill()
        self._process.wait()
        for event in self.receive():
            self._stage.record(event)
        self.ended = True
        self.pipe.close()

    def _order(self, order: Callable[..., None], *arguments: Any) -> None:
        try:
            self.pipe.send((order, *arguments))
        except OSError as error:
            raise StageFailed(f"{self.who}'s process has ended") from error


class Node(RedisServer):
    """A server whose faults are recorded."""

    def __init__(
        self, name: str, stage: "Stage", append_only: AppendOnly, *, own_clock: bool
    ) -> None:
        super().__init__(append_only=append_only, own_clock=own_clock)
        self.name = name
        self._stage = stage

    def freeze(self) -> None:
        super().freeze()
        self._stage.note(self.name, Kind.PAUSED)

    def thaw(self) -> None:
        self._stage.note(self.name, Kind.RESUMED)
        super().thaw()

    def crash(self) -> None:
        self.kill()
        self._stage.note(self.name, Kind.CRASHED)

    def come_back(self) -> None:
        self.start()
        kept = self.command("DBSIZE")
        self._stage.note(
            self.name, Kind.STARTED, "with its data" if kept else "it has lost its data"
        )

    def jump(self, seconds: float) -> None:
        self._stage.note(self.name, Kind.JUMPED, f"{seconds:+g} s")
        self.clock.jump(seconds)

    def promote(self) -> None:
        super().promote()
        self._stage.note(self.name, Kind.NOTED, "is the master now")

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

    def __init__(self, who: str, links: Mapping[str, Link], stage: "Stage") -> None:
        self._who, self._links, self._stage = who, links, stage

    def url(self, options: str) -> str:
        return quorum_of(self._links.values(), options)

    def cut(self, *nodes: Node) -> None:
        """Lose everything between the client and these nodes."""
        for node in nodes:
            self._links[node.name].cut()
        self._stage.note(self._who, Kind.CUT, peer=", ".join(node.name for node in nodes))

    def heal(self, *nodes: Node) -> None:
        for node in nodes:
            self._links[node.name].heal()
        self._stage.note(self._who, Kind.HEALED, peer=", ".join(node.name for node in nodes))


REGISTERS = "registers.db"


class Stage:
    """The servers, clients and files of one run, of which nothing is left afterwards; and its
    events. `show_event` is called with each."""

    def __init__(self, show_event: Callable[[Event], None]) -> None:
        self._show_event = show_event
        self._began = time.monotonic()
        self._events: list[Event] = []
        self._names: dict[str, str] = {}
        """By address, what a server or a link to it is called."""
        self._actors: list[Actor] = []
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

    def history(self) -> History:
        """What happened so far."""
        return History(self._events)

    def now(self) -> float:
        """Seconds since the stage was set."""
        return time.monotonic() - self._began

    def record(self, event: Event) -> None:
        for address, name in self._names.items():
            event = replace(event, note=event.note.replace(address, name))
        self._events.append(event)
        self._show_event(event)

    def note(self, who: str, kind: Kind, note: str = "", peer: str = "") -> None:
        """Keep what happens to a client or a node now."""
        self.record(Event(self.now(), who, kind, note=note, peer=peer))

    def calm(self) -> None:
        """The last fault is over: from here on, a free lock must be granted."""
        self.note("", Kind.HEALED)

    def let_pass(self, seconds: float) -> None:
        """Let some time of the story pass."""
        end = self.now() + seconds
        self.wait_until(lambda: self.now() >= end, "end")

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        """Receive events until it holds; a story that makes no progress is aborted."""
        give_up_at = time.monotonic() + TIME_LIMIT
        while not condition():
            if time.monotonic() > give_up_at:
                raise StageFailed(f"no {what} within {TIME_LIMIT:g} s")
            wait([actor.pipe for actor in self._actors if not actor.ended], 0.01)
            received = [event for actor in self._actors for event in actor.receive()]
            for event in sorted(received, key=lambda event: event.at):
                self.record(event)
