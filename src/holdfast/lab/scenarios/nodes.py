"""The servers of a scenario, with names, and the network between a client and them."""

from collections.abc import Iterable, Sequence

from holdfast.core.records import Label
from holdfast.lab.faults.proxy import Proxy
from holdfast.lab.history import Kind
from holdfast.lab.scenarios.actors import Recorder
from holdfast.lab.scenarios.locks import KEY
from holdfast.lab.servers.process import HOST
from holdfast.lab.servers.redis import RedisServer


class Node:
    """A server whose misfortunes are recorded."""

    def __init__(self, name: str, server: RedisServer, stage: Recorder) -> None:
        self.name = name
        self.server = server
        self._stage = stage

    @property
    def url(self) -> str:
        """For a client of this server alone."""
        return self.server.url

    def freeze(self) -> None:
        """Halt it: connections stay, nothing is answered."""
        self.server.freeze()
        self._stage.note(self.name, Kind.PAUSED)

    def thaw(self) -> None:
        """Let it go on."""
        self._stage.note(self.name, Kind.RESUMED)
        self.server.thaw()

    def crash(self) -> None:
        """Kill it."""
        self.server.kill()
        self._stage.note(self.name, Kind.CRASHED)

    def start(self) -> None:
        """Start it again after a crash."""
        self.server.start()
        kept = self.server.command("DBSIZE")
        self._stage.note(
            self.name, Kind.STARTED, "with its data" if kept else "it has forgotten everything"
        )

    def jump(self, seconds: float) -> None:
        """Set its wall clock forwards."""
        self._stage.note(self.name, Kind.JUMPED, f"{seconds:+g} s")
        self.server.clock.jump(seconds)

    def follow(self, master: "Node", link: Proxy) -> None:
        """Become a replica, through a link that can be held up."""
        self.server.command("REPLICAOF", HOST, link.port)
        self._stage.wait_until(lambda: self.is_in_step_with(master), f"{self.name} to be in step")

    def is_in_step_with(self, master: "Node") -> bool:
        """Whether it has heard of all that the master did."""
        mine, theirs = self.server.info("replication"), master.server.info("replication")
        heard, said = mine.get("slave_repl_offset", -1), theirs["master_repl_offset"]
        return mine.get("master_link_status") == "up" and int(heard) >= int(said)

    def promote(self) -> None:
        """Become a master with what was heard so far, as a sentinel would have it."""
        self.server.promote()
        self._stage.note(self.name, Kind.NOTED, "is the master now")

    def is_locked(self) -> bool:
        """Whether somebody has the lock here."""
        return self.server.command("GET", KEY) is not None

    def vote(self) -> tuple[int, float] | None:
        """The process that has the lock here, and for how many seconds; None if nobody has it."""
        label = Label.of(str(self.server.command("GET", KEY)))
        left = self.server.command("PTTL", KEY)
        return (label.pid, left / 1000) if label and isinstance(left, int) and left > 0 else None

    def answers(self) -> bool:
        """Whether it answers."""
        return self.server.command("PING") == "PONG"

    def knows(self, who: str) -> bool:
        """Whether a client of that name is connected."""
        return f"name={who} " in str(self.server.command("CLIENT", "LIST"))

    def uptime(self) -> int:
        """For how many whole seconds it has been up."""
        return int(self.server.info("server")["uptime_in_seconds"])

    def calls(self, command: str) -> int:
        """How often this command was carried out, by scripts too."""
        stats = self.server.info("commandstats").get(f"cmdstat_{command}", "calls=0,")
        return int(stats.removeprefix("calls=").partition(",")[0])


def quorum_of(addresses: Iterable[str], options: str) -> str:
    """The URL of a quorum."""
    return f"redlock://{','.join(addresses)}?{options}"


class Links:
    """The network between one client and each of its nodes, which can be cut and slowed down."""

    def __init__(self, who: str, nodes: Sequence[Node], stage: Recorder) -> None:
        self._who = who
        self._stage = stage
        self._proxies = {node.name: Proxy(node.server.port) for node in nodes}

    def __enter__(self) -> "Links":
        for proxy in self._proxies.values():
            proxy.start()
        return self

    def __exit__(self, *exc: object) -> None:
        for proxy in self._proxies.values():
            proxy.close()

    def url(self, options: str) -> str:
        """The quorum, as this client reaches it."""
        return quorum_of(self.addresses, options)

    @property
    def addresses(self) -> list[str]:
        """Where this client reaches each of the nodes."""
        return [proxy.address for proxy in self._proxies.values()]

    def names(self) -> dict[str, str]:
        """By address, the node that is reached there."""
        return {proxy.address: name for name, proxy in self._proxies.items()}

    def cut(self, *nodes: Node) -> None:
        """Lose everything between the client and these nodes."""
        for node in nodes:
            self._proxies[node.name].cut()
            self._stage.note(self._who, Kind.CUT, peer=node.name)

    def heal(self, *nodes: Node) -> None:
        """Let the client reach these nodes again."""
        for node in nodes:
            self._proxies[node.name].heal()
            self._stage.note(self._who, Kind.HEALED, peer=node.name)

    def slow_down(self, seconds: float, nodes: Iterable[Node]) -> None:
        """Let each message to these nodes take so long."""
        for node in nodes:
            self._proxies[node.name].delay(seconds)
