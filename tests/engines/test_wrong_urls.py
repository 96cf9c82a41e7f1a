"""A URL whose port is that of another kind of server, or whose scheme is wrong about TLS: the
doctor says what to check."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

import holdfast
from holdfast.lab.servers.redis import RedisServer
from tests.cli.processes import Holdfast
from tests.equipment.servers.etcd import EtcdServer
from tests.equipment.servers.zookeeper import ZooKeeperServer
from tests.patience import wait_for

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def nodes() -> Iterator[Mapping[str, str]]:
    """Addresses, by the scheme of their server."""
    servers = {"redis": RedisServer(), "etcd": EtcdServer(), "zookeeper": ZooKeeperServer()}
    with ExitStack() as stack:
        yield {name: stack.enter_context(each).address for name, each in servers.items()}


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("postgresql://me@{}/mine", "redis"),
        ("mysql://me@{}/mine", "redis"),
        ("zookeeper://{}", "redis"),
        ("zookeepers://{}", "zookeeper"),
        ("etcd://{}", "redis"),
        ("etcds://{}", "etcd"),
        ("redis://{}", "etcd"),
    ],
)
def test_the_doctor_sends_to_the_port_and_the_scheme(
    nodes: Mapping[str, str], url: str, kind: str
) -> None:
    with holdfast.Client(url.format(nodes[kind])) as client:
        [finding] = client.diagnose()
    assert finding.severity == "critical"
    scheme = url.partition(":")[0]
    assert f"its kind, its port and its TLS are those of {scheme}://" in finding.mend


def test_a_command_that_fails_sends_to_the_doctor(nodes: Mapping[str, str], tmp_path: Path) -> None:
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
