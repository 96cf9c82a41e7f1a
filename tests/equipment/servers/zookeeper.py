"""A ZooKeeper server, and an ensemble of three."""

import shutil
import socket
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from holdfast.lab.servers.process import HOST, free_port, required
from tests.equipment.servers.certificates import Certificates
from tests.equipment.servers.group import ElectingGroup, Member, within
from tests.equipment.servers.proxy import Proxy

ANSWER_WITHIN = 2.0
TICK = 0.2
"""Seconds to a tick: short, so that sessions can be short."""

LONGEST_SESSION = 120.0

JAVA = (
    "-Xmx64m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    # What it has committed survives its own death, but not the machine's: that is quick.
    "-Dzookeeper.forceSync=no",
    # Empty containers go soon, and not after a minute.
    "-Dznode.container.checkIntervalMs=500",
)

NETTY = ("/usr/share/java/netty-codec.jar", "/usr/share/java/netty-resolver.jar")
"""What Debian's server needs for TLS, and its own archive does not name."""

PeerPorts = tuple[int, int]
"""Where a member listens for the others: for what a leader says, and for elections."""


class ZooKeeperServer(Member):
    """One server.

    tick          its tick in seconds
    settings      further lines of its `zoo.cfg`: {"syncLimit": "10"}
    flags         further properties of its Java: {"zookeeper.extendedTypesEnabled": "false"}
    tls           its certificate: it serves TLS then, at a port of its own
    client_certs  whether it wants to see certificates of that authority from its clients
    """

    request_timeout = 60.0

    def __init__(
        self,
        folder: Path | None = None,
        *,
        tick: float = TICK,
        settings: dict[str, str] | None = None,
        flags: dict[str, str] | None = None,
        tls: Certificates | None = None,
        client_certs: bool = False,
    ) -> None:
        super().__init__(folder)
        self.tick, self.tls, self.client_certs = tick, tls, client_certs
        self.settings, self.flags = dict(settings or {}), dict(flags or {})
        self.secure_port = 0
        self.peer_ports: PeerPorts = (0, 0)
        self.number = 1
        self.ensemble: Sequence[ZooKeeperServer] = ()
        self.finds: Callable[[ZooKeeperServer], PeerPorts] = lambda other: other.peer_ports
        """Where this member looks for another one: at its ports, unless a proxy is between."""
        self._java, self._jars = find_java(), find_zookeeper()

    @property
    def url(self) -> str:
        """The URL of this one server."""
        if self.tls is None:
            return f"zookeeper://{self.address}?{self.terms}"
        trust = f"ca_cert={self.tls.authority}"
        return f"zookeepers://{HOST}:{self.secure_port}?{trust}&{self.terms}"

    @property
    def terms(self) -> str:
        """What a client must know of its settings, as parameters of a URL."""
        return f"tick={self.tick:g}&max_ttl={LONGEST_SESSION:g}"

    def choose_ports(self) -> None:
        """A port for clients, one for those who want TLS, and two for the other members."""
        self.port, self.secure_port = free_port(), free_port()
        self.peer_ports = (free_port(), free_port())

    def arguments(self) -> list[str]:
        """The command that runs it in the foreground."""
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        (data / "myid").write_text(f"{self.number}\n")
        lines = {
            "tickTime": f"{1000 * self.tick:.0f}",
            "initLimit": "50",
            "syncLimit": "5",
            "maxSessionTimeout": f"{1000 * LONGEST_SESSION:.0f}",
            "dataDir": str(data),
            "clientPort": str(self.port),
            "clientPortAddress": HOST,
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
        }
        for member in self.ensemble:
            ports = self.finds(member) if member is not self else self.peer_ports
            lines[f"server.{member.number}"] = f"{HOST}:{ports[0]}:{ports[1]}"
        lines |= self._tls_lines() | self.settings
        settings = self.folder / "zoo.cfg"
        settings.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        flags = [f"-D{name}={value}" for name, value in self.flags.items()]
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        jars = ":".join([self._jars, *(NETTY if self.tls is not None else ())])
        return [self._java, *JAVA, *flags, "-cp", jars, main, str(settings)]

    def _tls_lines(self) -> dict[str, str]:
        if self.tls is None:
            return {}
        shown = self.folder / "shown.pem"
        shown.write_text(self.tls.key.read_text() + self.tls.certificate.read_text())
        return {
            "secureClientPort": str(self.secure_port),
            "secureClientPortAddress": HOST,
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.keyStore.location": str(shown),
            "ssl.trustStore.location": str(self.tls.authority),
            "ssl.clientAuth": "need" if self.client_certs else "none",
        }

    def answers(self) -> bool:
        """Whether it serves, which takes a majority of its ensemble."""
        return "Mode: " in self.command("srvr")

    def command(self, word: str) -> str:
        """Ask it something in four letters: `srvr`, `mntr`, `wchs`, `dump`, `cons`."""
        with socket.create_connection((HOST, self.port), ANSWER_WITHIN) as line:
            line.sendall(word.encode())
            said = b""
            while piece := line.recv(65536):
                said += piece
        return said.decode()

    def figure(self, name: str) -> int:
        """A number that it measures: `figure("znode_count")`."""
        lines = (line.split("\t") for line in self.command("mntr").splitlines())
        return next(int(words[1]) for words in lines if words[0] == f"zk_{name}")

    def is_leader(self) -> bool:
        """Whether it leads its ensemble, as far as it knows."""
        return "Mode: leader" in self.command("srvr")


class ZooKeeperEnsemble(ElectingGroup[ZooKeeperServer]):
    """Three members unless said otherwise.

    partable  whether there are proxies between the members, so that one can be cut off
    """

    request_timeout = 60.0

    def __init__(
        self,
        folder: Path | None = None,
        count: int = 3,
        *,
        tick: float = TICK,
        settings: dict[str, str] | None = None,
        partable: bool = False,
    ) -> None:
        self.servers = [
            ZooKeeperServer(within(folder, f"member-{i}"), tick=tick, settings=settings)
            for i in range(1, count + 1)
        ]
        for number, server in enumerate(self.servers, 1):
            server.number = number
            server.ensemble = self.servers
        self.partable = partable
        self._links: dict[tuple[int, int], tuple[Proxy, Proxy]] = {}

    @property
    def url(self) -> str:
        """All of them: `zookeeper://host:port,host:port,...`."""
        return self.url_of(self.servers)

    def url_of(self, servers: Sequence[ZooKeeperServer]) -> str:
        """The URL of some of them."""
        places = ",".join(server.address for server in servers)
        return f"zookeeper://{places}?{servers[0].terms}"

    def choose_ports(self) -> None:
        super().choose_ports()
        if self.partable and not self._links:
            self._lay_links()

    def cut_off(self, server: ZooKeeperServer) -> None:
        """Lose whatever this member and the others say to each other. Clients still reach it."""
        for ends, link in self._links.items():
            if server.number in ends:
                for proxy in link:
                    proxy.cut()

    def heal(self) -> None:
        """Let all members hear each other again."""
        for link in self._links.values():
            for proxy in link:
                proxy.heal()

    def close(self) -> None:
        """End all members, and what is between them."""
        super().close()
        for link in self._links.values():
            for proxy in link:
                proxy.close()

    def _lay_links(self) -> None:
        for one in self.servers:
            for other in self.servers:
                if one is not other:
                    speech, election = (Proxy(port).start() for port in other.peer_ports)
                    self._links[one.number, other.number] = (speech, election)
            one.finds = partial(self._found_by, one)

    def _found_by(self, one: ZooKeeperServer, other: ZooKeeperServer) -> PeerPorts:
        speech, election = self._links[one.number, other.number]
        return (speech.port, election.port)


def find_java() -> str:
    """The path of `java`."""
    return required(shutil.which("java"), "java", "install Debian's package default-jre-headless")


def find_zookeeper() -> str:
    """The class path of a ZooKeeper server: its own archive, which names the others, and a log."""
    jars = [Path("/usr/share/java") / name for name in ("zookeeper.jar", "slf4j-simple.jar")]
    found = ":".join(map(str, jars)) if all(jar.exists() for jar in jars) else None
    return required(found, "zookeeper.jar", "install Debian's package zookeeper")
