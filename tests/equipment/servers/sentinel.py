"""A master, its replicas, and sentinels that watch them and promote a replica."""

from collections.abc import Sequence
from pathlib import Path

from holdfast.lab.servers.process import HOST
from holdfast.lab.servers.redis import quoted
from tests.equipment.servers.certificates import Certificates
from tests.equipment.servers.group import ServerGroup, within
from tests.equipment.servers.secured import SecuredRedis, Users

# How often, in milliseconds, a sentinel looks at the servers and talks to the others; the defaults
# are slow. While a master is down, it asks a replica for news but once a second, and promotes none
# whose news is older than five pings; and a sentinel that does not learn of a promotion within four
# publications undoes it. So both must be slower than they could be.
PACE = ("PING-PERIOD", 400, "INFO-PERIOD", 300, "ASK-PERIOD", 100, "PUBLISH-PERIOD", 600)
# As long as there is nothing to promote, they may introduce themselves faster.
HASTE = ("PUBLISH-PERIOD", 100)


class Sentinel(SecuredRedis):
    """One sentinel. It keeps what it knows, and whom it watches, in its configuration file."""

    def settings(self) -> list[str]:
        """The lines of its configuration, before it has learnt anything."""
        return [f"bind {HOST}", f"dir {quoted(self.folder)}", *self.listening()]

    def arguments(self) -> list[str]:
        """The command that runs it, with what it wrote down the last time, if there is any."""
        file = self.folder / "redis.conf"
        known = file.read_text() if file.exists() else ""
        command = super().arguments()
        if all(f"{line}\n" in known for line in self.listening()[:2]):
            file.write_text(known)
        return [*command, "--sentinel"]

    def save(self) -> None:
        """Nothing is to be done: it writes down what it learns at once."""

    def erase(self) -> None:
        """Remove what it knows from the disk."""
        (self.folder / "redis.conf").unlink(missing_ok=True)

    def watch(self, service: str, master: SecuredRedis, quorum: int, down_after: float) -> None:
        """Watch a master from now on."""
        self.command("SENTINEL", "DEBUG", *PACE, *HASTE)
        self.command("SENTINEL", "MONITOR", service, HOST, master.port, quorum)
        orders: dict[str, str | int] = {"down-after-milliseconds": int(down_after * 1000)}
        orders["failover-timeout"] = 3000
        if master.password:
            orders["auth-pass"] = master.password
        self.command("SENTINEL", "SET", service, *(w for order in orders.items() for w in order))

    def master_port(self, service: str) -> int | None:
        """The port of the master, as far as this sentinel knows."""
        match self.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service):
            case [_, str(port)]:
                return int(port)
        return None

    def view(self, service: str) -> dict[str, str]:
        """What it knows of the master: {"num-slaves": "1", ...}."""
        match self.command("SENTINEL", "MASTER", service):
            case list(words):
                return dict(zip(map(str, words[::2]), map(str, words[1::2]), strict=True))
        return {}


class SentinelSet(ServerGroup):
    """A master with `replicas`, and three sentinels of which two decide.

    service     the name under which the sentinels know the master
    password    of the servers; the sentinels themselves have none
    users       of the servers, as of a `SecuredRedis`
    tls         the certificate of all of them
    down_after  seconds without an answer after which a sentinel takes the master for dead
    """

    def __init__(
        self,
        folder: Path | None = None,
        replicas: int = 1,
        *,
        program: str | None = None,
        service: str = "holdfast",
        password: str | None = None,
        users: Users | None = None,
        tls: Certificates | None = None,
        down_after: float = 1.0,
    ) -> None:
        self.service = service
        self.down_after = down_after
        self.servers = [
            SecuredRedis(
                within(folder, f"server-{i}"),
                program=program,
                password=password,
                users=users,
                tls=tls,
            )
            for i in range(1 + replicas)
        ]
        self.sentinels = [
            Sentinel(within(folder, f"sentinel-{i}"), program=program, tls=tls) for i in range(3)
        ]

    def members(self) -> Sequence[SecuredRedis]:
        """The servers and the sentinels."""
        return [*self.servers, *self.sentinels]

    @property
    def url(self) -> str:
        """The sentinels and the service: `redis+sentinel://host:port,.../service`."""
        return self.url_with(self.servers[0].login)

    def url_with(self, login: str) -> str:
        """The same, with the login of a user of the servers: `name:password@`."""
        nodes = ",".join(sentinel.address for sentinel in self.sentinels)
        option = f"?{tls.as_option()}" if (tls := self.servers[0].tls) else ""
        return f"redis+sentinel://{login}{nodes}/{self.service}{option}"

    @property
    def master(self) -> SecuredRedis:
        """The server that most sentinels take for the master."""
        ports = [s.master_port(self.service) for s in self.sentinels if s.alive]
        return max(self.servers, key=lambda server: ports.count(server.port))

    def unite(self) -> None:
        """Make the first server the master, and have it watched."""
        first = self.servers[0]
        for replica in self.servers[1:]:
            replica.command("REPLICAOF", HOST, first.port)
        self.wait_until(lambda: self._replicates(first), "replication")
        for sentinel in self.sentinels:
            sentinel.watch(self.service, first, quorum=2, down_after=self.down_after)
        self.settle()
        for sentinel in self.sentinels:
            sentinel.command("SENTINEL", "DEBUG", *PACE)

    def settle(self) -> None:
        """Wait until all that live agree who is master, know each other, and replicate it."""
        self.wait_until(self._settled, "agreement on a master with replicas")

    def fail_over(self) -> SecuredRedis:
        """Have a replica promoted though the master is well; gives the new master."""
        former = self.master
        leader = next(sentinel for sentinel in self.sentinels if sentinel.alive)

        def promoted() -> bool:
            if leader.master_port(self.service) != former.port:
                return True
            leader.command("SENTINEL", "FAILOVER", self.service)  # an error if it is at it already
            return False

        self.wait_until(promoted, "replica promoted")
        return self.wait_for_master(other_than=former)

    def kill_master(self) -> SecuredRedis:
        """Kill the master, and give it: it can be started again, and will become a replica."""
        master = self.master
        master.kill()
        return master

    def wait_for_master(self, *, other_than: SecuredRedis) -> SecuredRedis:
        """Wait until another server is the master and all that live follow it; gives it."""
        self.wait_until(
            lambda: self.master is not other_than and self._settled(), "new master with replicas"
        )
        return self.master

    def _settled(self) -> bool:
        sentinels = [sentinel for sentinel in self.sentinels if sentinel.alive]
        agreed = {sentinel.master_port(self.service) for sentinel in sentinels}
        return (
            agreed == {self.master.port}
            and self._replicates(self.master)
            and all(self._informed(sentinel) for sentinel in sentinels)
        )

    def _informed(self, sentinel: Sentinel) -> bool:
        view = sentinel.view(self.service)
        return (
            view["flags"] == "master"
            and int(view["num-other-sentinels"]) == len(self.sentinels) - 1
            and int(view["num-slaves"]) == len(self.servers) - 1
        )

    def _replicates(self, master: SecuredRedis) -> bool:
        replicas = [server for server in self.servers if server.alive and server is not master]
        return master.info("replication")["role"] == "master" and all(
            info["role"] == "slave"
            and info["master_port"] == str(master.port)
            and info["master_link_status"] == "up"
            for info in (replica.info("replication") for replica in replicas)
        )
