"""Masters that share the slots of a cluster."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from holdfast.lab.servers.process import HOST, free_port
from tests.equipment.servers.certificates import Certificates
from tests.equipment.servers.group import ServerGroup, within
from tests.equipment.servers.secured import SecuredRedis, Users

SLOTS = 16_384


class ClusterNode(SecuredRedis):
    """One master of a cluster."""

    bus_port = 0

    def choose_ports(self) -> None:
        """Choose a port for clients, and one for the other nodes."""
        super().choose_ports()
        self.bus_port = free_port()

    def settings(self) -> list[str]:
        """The lines of its configuration."""
        lines = [*super().settings(), "cluster-enabled yes", f"cluster-port {self.bus_port}"]
        if self.tls:
            lines += ["tls-cluster yes"]
        return [*lines, "cluster-config-file nodes.conf", "cluster-node-timeout 2000"]

    @property
    def id(self) -> str:
        """The name of the node within the cluster."""
        return str(self.command("CLUSTER", "MYID"))

    def state(self) -> dict[str, str]:
        """What the node thinks of the cluster: {"cluster_state": "ok", ...}."""
        lines = str(self.command("CLUSTER", "INFO")).splitlines()
        return dict(line.split(":", 1) for line in lines)

    def port_of(self, slot: int) -> int | None:
        """The port of the node that has this slot, as far as this node knows."""
        ranges = self.command("CLUSTER", "SLOTS")
        assert isinstance(ranges, list)
        for entry in ranges:
            match entry:
                case [int(first), int(last), [_, int(port), *_], *_] if first <= slot <= last:
                    return port
        return None


class RedisCluster(ServerGroup):
    """Three masters without replicas, each with a third of the slots, unless said otherwise.

    password, users, tls  of each, as of a `SecuredRedis`
    """

    def __init__(
        self,
        folder: Path | None = None,
        count: int = 3,
        *,
        program: str | None = None,
        password: str | None = None,
        users: Users | None = None,
        tls: Certificates | None = None,
    ) -> None:
        self.nodes = [
            ClusterNode(
                within(folder, f"node-{i}"),
                program=program,
                password=password,
                users=users,
                tls=tls,
            )
            for i in range(count)
        ]

    def members(self) -> Sequence[ClusterNode]:
        """The nodes."""
        return self.nodes

    @property
    def url(self) -> str:
        """All of them: `redis+cluster://host:port,host:port,...`."""
        return self.url_with(self.nodes[0].login)

    def url_with(self, login: str) -> str:
        """The same, with the login of a user: `name:password@`."""
        option = f"?{tls.as_option()}" if (tls := self.nodes[0].tls) else ""
        return f"redis+cluster://{login}{','.join(node.address for node in self.nodes)}{option}"

    def unite(self) -> None:
        """Introduce the nodes to each other, and share the slots out."""
        bounds = [SLOTS * i // len(self.nodes) for i in range(len(self.nodes) + 1)]
        for epoch, node in enumerate(self.nodes):
            node.command("CLUSTER", "SET-CONFIG-EPOCH", epoch + 1)
            node.command("CLUSTER", "ADDSLOTSRANGE", bounds[epoch], bounds[epoch + 1] - 1)
            for other in self.nodes[:epoch]:
                node.command("CLUSTER", "MEET", HOST, other.port, other.bus_port)
        self.settle()

    def settle(self) -> None:
        """Wait until every node knows all others and finds the cluster in order."""
        self.wait_until(lambda: all(map(self._content, self.nodes)), "agreement of all nodes")

    def slot_of(self, key: str) -> int:
        """The slot of a key."""
        return int(str(self.nodes[0].command("CLUSTER", "KEYSLOT", key)))

    def owner_of(self, slot: int) -> ClusterNode:
        """The node that has this slot."""
        port = self.nodes[0].port_of(slot)
        return next(node for node in self.nodes if node.port == port)

    def move_slot(self, slot: int, to: ClusterNode) -> None:
        """Give a slot to another node, with its keys: the former owner answers MOVED."""
        with self.moving_slot(slot, to):
            pass

    @contextmanager
    def moving_slot(self, slot: int, to: ClusterNode) -> Iterator[None]:
        """While it lasts, the slot moves: its owner answers ASK for keys that it does not have."""
        source = self.owner_of(slot)
        if source is to:
            raise ValueError(f"slot {slot} is with {to.address} already")
        to.command("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id)
        yield
        while keys := source.command("CLUSTER", "GETKEYSINSLOT", slot, 100):
            for key in keys if isinstance(keys, list) else ():
                source.command("MIGRATE", HOST, to.port, str(key), 0, 5000)
        # The new owner first, so that there is one at any time.
        for node in (to, source, *(n for n in self.nodes if n not in (to, source))):
            node.command("CLUSTER", "SETSLOT", slot, "NODE", to.id)
        self.wait_until(
            lambda: all(node.port_of(slot) == to.port for node in self.nodes),
            f"agreement on slot {slot}",
        )

    def _content(self, node: ClusterNode) -> bool:
        state = node.state()
        return state["cluster_state"] == "ok" and state["cluster_known_nodes"] == str(
            len(self.nodes)
        )
