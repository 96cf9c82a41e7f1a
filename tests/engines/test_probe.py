"""A URL whose port is that of another kind of server, or whose scheme is wrong about TLS: the
doctor says so. Real servers of every kind."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

import holdfast
from holdfast.engines.examining import what_answers
from holdfast.lab.servers.process import HOST, free_port
from holdfast.lab.servers.redis import RedisServer
from tests.cli.processes import Holdfast
from tests.equipment.servers.certificates import Certificates, make_certificates
from tests.equipment.servers.etcd import EtcdServer
from tests.equipment.servers.mariadb import MariaDbServer
from tests.equipment.servers.postgres import PostgresServer
from tests.equipment.servers.secured import SecuredRedis
from tests.equipment.servers.zookeeper import ZooKeeperServer
from tests.patience import wait_for

pytestmark = pytest.mark.slow

NAMES = {
    "redis": "a Redis server",
    "mariadb": "a MariaDB or MySQL server",
    "postgresql": "a PostgreSQL server",
    "etcd": "an etcd server",
    "zookeeper": "a ZooKeeper server",
    "rediss": "a Redis server with TLS",
    "etcds": "an etcd server with TLS",
}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def nodes(certificates: Certificates) -> Iterator[Mapping[str, str]]:
    """Addresses, by the scheme of their server."""
    servers = {
        "redis": RedisServer(),
        "mariadb": MariaDbServer(),
        "postgresql": PostgresServer(),
        "etcd": EtcdServer(),
        "zookeeper": ZooKeeperServer(),
        "rediss": SecuredRedis(tls=certificates),
        "etcds": EtcdServer(tls=certificates),
    }
    with ExitStack() as stack:
        yield {name: stack.enter_context(each).address for name, each in servers.items()}


@pytest.mark.parametrize("scheme", NAMES)
def test_every_kind_of_server_is_known(nodes: Mapping[str, str], scheme: str) -> None:
    found = {kind: what_answers(f"{scheme}://", node) for kind, node in nodes.items()}
    expected = NAMES | {scheme: ""}
    if scheme in ("rediss", "etcds"):
        expected[scheme[:-1]] += " without TLS"
    assert found == expected


def test_tls_may_be_an_option(nodes: Mapping[str, str]) -> None:
    assert what_answers("redlock://", nodes["rediss"]) == ""
    assert what_answers("redlock://", nodes["redis"]) == ""
    assert what_answers("redlock://", nodes["etcds"]) == "an etcd server with TLS"


def test_nothing_is_said_of_what_does_not_answer() -> None:
    assert what_answers("redis://", f"{HOST}:{free_port()}") == ""
    assert what_answers("redis://", "/run/redis/redis.sock") == ""
    assert what_answers("redis://", "the cluster") == ""
    assert what_answers("redis://", "a..b:6379") == ""
    assert what_answers("redis://", f"{HOST}:{10**30}") == ""


@pytest.mark.parametrize(
    ("url", "kind", "what"),
    [
        ("postgresql://me@{}/mine", "redis", "a Redis server seems to answer there"),
        ("mysql://me@{}/mine", "postgresql", "a PostgreSQL server seems to answer there"),
        ("zookeeper://{}", "mariadb", "a MariaDB or MySQL server seems to answer there"),
        ("zookeepers://{}", "zookeeper", "a ZooKeeper server without TLS seems to answer there"),
        ("etcd://{}", "redis", "a Redis server seems to answer there"),
        ("etcds://{}", "etcd", "an etcd server without TLS seems to answer there"),
        ("redis://{}", "postgresql", "a PostgreSQL server seems to answer there"),
        ("redis://{}", "rediss", "a Redis server with TLS seems to answer there"),
    ],
)
def test_the_doctor_names_the_other_server(
    nodes: Mapping[str, str], url: str, kind: str, what: str
) -> None:
    with holdfast.Client(url.format(nodes[kind])) as client:
        [finding] = client.diagnose()
    assert (finding.severity, finding.mend.partition(":")[0]) == ("critical", what)


def test_a_command_that_fails_sends_to_the_doctor(nodes: Mapping[str, str], tmp_path: Path) -> None:
    """It does not look by itself: each question in a foreign protocol is a failed login to some
    servers, and MariaDB blocks a host that has too many of them."""
    done = Holdfast(tmp_path / "locks.db").run(
        *("run", "-n", "--ttl", "3", "--url", f"etcd://{nodes['redis']}", "job", "--", "true")
    )
    assert done.returncode == 69
    assert "`holdfast doctor` examines it" in done.stderr
    assert all(line.startswith("holdfast: ") for line in done.stderr.splitlines())


@pytest.mark.parametrize("scheme", ["etcd", "zookeeper"])
def test_an_error_says_that_the_server_has_no_tls(
    nodes: Mapping[str, str], scheme: str, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        holdfast.Client(f"{scheme}s://{nodes[scheme]}") as client,
        caplog.at_level(logging.WARNING),
    ):

        def is_said() -> bool:
            with pytest.raises(holdfast.EngineUnavailable) as caught:
                client.lock("job").acquire(timeout=2)
            engine = client.guarantees.engine
            assert f"since the engine ({engine}) is unreachable" in str(caught.value)
            return f"Without TLS, the URL begins with {scheme}://" in str(caught.value)

        wait_for(is_said)  # a busy machine may not get as far as that in time
    assert not any(record.exc_info for record in caplog.records)
