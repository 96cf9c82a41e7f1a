"""All of a soak together: five nodes, clients with a network each, registers, and a journal."""

import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from holdfast.lab.history import Event, History, Kind
from holdfast.lab.servers.process import ServerProcess
from holdfast.lab.servers.redis import AppendOnly, RedisServer
from tests.equipment.servers.proxy import Proxy
from tests.equipment.soak.client import Role
from tests.equipment.soak.journal import Journal, from_line
from tests.equipment.soak.register import Registers

NAMES = ["invoice", "report"]
"""The locks that are contended for."""

TTL = 1.5
NODES = 5
DURABLE = 3
"""How many nodes write everything down at once. The others forget all when they are killed."""

CLIENTS = 6
OPTIONS = f"max_ttl={TTL:g}"
"""Of the clients. A node that forgets must be kept from voting for this long, and a bit."""

FAREWELL = 15.0
"""Within how many seconds a client must have left when it is time to."""


ROOT = Path(__file__).parents[3]
"""Where `tests` is."""


@dataclass(frozen=True, slots=True)
class Node:
    """A server, by its name in the journal."""

    name: str
    process: RedisServer

    @property
    def durable(self) -> bool:
        """Whether it forgets nothing."""
        return self.process.append_only == "always"


class ClientProcess(ServerProcess):
    """The process of one client, which can be frozen, killed and started as a server can."""

    def __init__(self, role: Role, folder: Path) -> None:
        super().__init__(folder)
        self.role = role

    def choose_ports(self) -> None:
        """It listens nowhere."""

    def arguments(self) -> list[str]:
        """The command that runs it."""
        program = [sys.executable, "-P", "-m", "tests.equipment.soak.client", self.role.as_json()]
        return ["env", f"PYTHONPATH={ROOT}", *program]

    def answers(self) -> bool:
        """Whether it has begun."""
        return (self.folder / f"{self.pid}.jsonl").stat().st_size > 0

    def events(self) -> list[Event]:
        """What it told, in all its lives. A line that a kill cut short does not count."""
        journals = self.folder.glob("*.jsonl")
        lines = (line for file in journals for line in file.read_text().split("\n")[:-1])
        return [from_line(line) for line in lines]


@dataclass(frozen=True, slots=True)
class Client:
    """A client, by its name in the journal, and its own way to each of the nodes."""

    name: str
    process: ClientProcess
    links: Mapping[str, Proxy]


class Ground:
    """Where a soak takes place. Nothing of it goes on afterwards; `folder` has what was written."""

    def __init__(self, folder: Path) -> None:
        self.journal = Journal()
        self.nodes: list[Node] = []
        self.clients: list[Client] = []
        self._folder = folder
        self._closing = folder / "closing"
        self._open = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._registers = self._open.enter_context(Registers(self.journal))
            self.nodes += (self._start_node(number) for number in range(1, NODES + 1))
            self.clients += (self._prepare_client(number) for number in range(1, CLIENTS + 1))
            with ThreadPoolExecutor(CLIENTS) as pool:
                list(pool.map(lambda client: client.process.start(), self.clients))
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._open.close()

    def history(self) -> History:
        """What happened so far."""
        told = [event for client in self.clients for event in client.process.events()]
        return History([*self.journal.events(), *told])

    def likely_holder(self) -> Client:
        """The client that wrote last, and so most likely has a lock; at first, any."""
        write = self.journal.latest(Kind.WROTE)
        writers = (client for client in self.clients if write and client.name == write.who)
        return next(writers, self.clients[0])

    def see_off(self) -> Iterator[str]:
        """Let all clients leave, and give what was wrong with any of them."""
        self._closing.touch()
        give_up_at = time.monotonic() + FAREWELL
        for client in self.clients:
            code = client.process.wait(max(0.0, give_up_at - time.monotonic()))
            said = client.process.log.read_text(errors="replace")
            if code != 0:
                yield f"{client.name} ended with {code}: {said[-500:]}"
            elif "Traceback" in said:
                yield f"{client.name} met a defect: {said[said.index('Traceback') :][:2000]}"

    def stored(self) -> dict[str, dict[str, str]]:
        """Which locks are still held on which nodes, and by whom, once every ttl has passed."""
        give_up_at = time.monotonic() + TTL + 1.0
        while (found := self._held()) and time.monotonic() < give_up_at:
            time.sleep(0.05)
        return found

    def _held(self) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for node in self.nodes:
            for name in NAMES:
                holder = node.process.command("GET", f"holdfast:{name}")
                if holder is not None:
                    found.setdefault(node.name, {})[name] = str(holder)
        return found

    def _start_node(self, number: int) -> Node:
        name = f"n{number}"
        append_only: AppendOnly = "always" if number <= DURABLE else "no"
        server = RedisServer(self._folder / name, append_only=append_only)
        return Node(name, self._open.enter_context(server))

    def _prepare_client(self, number: int) -> Client:
        name = f"c{number}"
        links = {
            node.name: self._open.enter_context(Proxy(node.process.port)) for node in self.nodes
        }
        role = Role(
            who=name,
            awaits=number % 2 == 0,
            url=f"redlock://{','.join(link.address for link in links.values())}?{OPTIONS}",
            ttl=TTL,
            names=NAMES,
            registers=self._registers.port,
            folder=str(self._folder / name),
            closing=str(self._closing),
            began=self.journal.began,
        )
        process = ClientProcess(role, self._folder / name)
        self._open.callback(process.close)
        return Client(name, process, links)
