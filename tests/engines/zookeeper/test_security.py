"""Certificates and logins."""

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.lab.servers.process import HOST
from tests.equipment.servers.certificates import (
    Certificates,
    find_openssl,
    make_certificates,
    make_client_certificate,
)
from tests.equipment.servers.proxy import Proxy
from tests.equipment.servers.zookeeper import ZooKeeperServer
from tests.patience import wait_for

NOBODY = f"{HOST}:1"


def takes(url: str, **options: Any) -> bool:
    with holdfast.Client(url, **options) as client, client.lock("door", ttl=20, timeout=20):
        return True


def refusal(url: str, **options: Any) -> str:
    with holdfast.Client(url, **options) as client:
        with pytest.raises(holdfast.EngineUnavailable) as error:
            client.lock("door", ttl=3).acquire(blocking=False)
        return str(error.value)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def of_a_client(certificates: Certificates) -> Certificates:
    return make_client_certificate(certificates)


@pytest.fixture(scope="module")
def secure_server(certificates: Certificates) -> Iterator[ZooKeeperServer]:
    """One that wants to see a certificate."""
    with ZooKeeperServer(tls=certificates, client_certs=True) as server:
        yield server


@pytest.fixture
def shown(of_a_client: Certificates) -> dict[str, Any]:
    """What a client shows, as options."""
    return {"cert": str(of_a_client.certificate), "key": str(of_a_client.key)}


def test_a_server_with_tls(
    secure_server: ZooKeeperServer, shown: dict[str, Any], tmp_path: Path
) -> None:
    assert takes(secure_server.url, **shown)
    stranger = make_certificates(tmp_path).authority
    _, _, terms = secure_server.url.partition("&")
    place = f"{HOST}:{secure_server.secure_port}"
    doubtful = f"zookeepers://{place}?ca_cert={stranger}&{terms}"
    wait_for(lambda: "certificate verify failed" in refusal(doubtful, **shown))
    assert refusal(secure_server.url), "without a certificate"
    assert refusal(f"zookeeper://{place}?{terms}"), "in the clear"


def test_the_same_for_tasks(secure_server: ZooKeeperServer, shown: dict[str, Any]) -> None:
    async def story() -> None:
        async with holdfast.AsyncClient(secure_server.url, **shown) as client:
            async with client.lock("door", ttl=20):
                assert await client.cell("stock").set("1" * 100_000, expect=0)
            found = await client.cell("stock").get()
            assert found.value == "1" * 100_000

    asyncio.run(story())


def test_a_session_over_tls_outlives_its_connections(
    secure_server: ZooKeeperServer, shown: dict[str, Any]
) -> None:
    with Proxy(secure_server.secure_port) as proxy:
        url = secure_server.url.replace(str(secure_server.secure_port), str(proxy.port))
        with holdfast.Client(url, **shown) as client:
            lease = client.lock("steady", ttl=20).acquire()
            assert lease
            for _ in range(3):
                proxy.reset()
                lease.extend()
            many = [client.lock(f"one of many {i}", ttl=20).acquire() for i in range(20)]
            assert all(many), "several answers in one record"
            assert len(list(client.leases("one of"))) == 20
            [session] = client._driver._store._exchanges.sessions  # type: ignore[attr-defined]
            session._connection.cut()
            lease.extend()
            lease.release()


@pytest.mark.parametrize(
    ("url", "options", "names"),
    [
        (f"zookeeper://{NOBODY}", {"ca_cert": __file__}, "zookeepers://"),
        (f"zookeepers://{NOBODY}", {"ca_cert": "nowhere.pem"}, "nowhere.pem"),
        (f"zookeepers://{NOBODY}", {"ca_cert": __file__}, "ca_cert"),
        (f"zookeepers://{NOBODY}", {"cert": __file__}, "key"),
        (f"zookeepers://{NOBODY}", {"cert": __file__, "key": __file__}, "cert"),
    ],
)
def test_files_of_no_use_are_told_of_at_once(url: str, options: dict[str, Any], names: str) -> None:
    with pytest.raises(ValueError, match=names):
        holdfast.Client(url, **options)


def test_nobody_is_asked_for_the_password_of_a_key(tmp_path: Path) -> None:
    made, locked = make_certificates(tmp_path), tmp_path / "locked.key"
    command = [find_openssl(), "pkcs8", "-topk8", "-in", str(made.key), "-out", str(locked)]
    subprocess.run([*command, "-passout", "pass:secret"], check=True, capture_output=True)
    with pytest.raises(ValueError, match="cert"):
        holdfast.Client(f"zookeepers://{NOBODY}", cert=str(made.certificate), key=str(locked))


def test_a_login_keeps_others_out(server: ZooKeeperServer) -> None:
    place = f"{server.address}/private?{server.terms}"
    ann, wrong = f"zookeeper://ann:se%3Acret@{place}", f"zookeeper://ann:guessed@{place}"
    assert takes(ann)
    for stranger in (wrong, f"zookeeper://{place}"):
        refused = refusal(stranger)
        assert "NoAuth" in refused
        assert "cannot be used like this" in refused, "waiting does not heal it"
        assert "guessed" not in refused
    with holdfast.Client(ann) as client, holdfast.Client(wrong) as other:
        assert client.cell("stock").set("1", expect=0)
        with pytest.raises(holdfast.EngineUnavailable, match="NoAuth"):
            other.cell("stock").get()


def test_a_login_is_repeated_on_the_next_connection(server: ZooKeeperServer) -> None:
    with Proxy(server.port) as proxy:
        url = f"zookeeper://ann:secret@{proxy.address}/private too?{server.terms}"
        with holdfast.Client(url) as client, client.lock("door", ttl=20) as lease:
            proxy.reset()
            lease.extend()
            wait_for(lambda: lease.held)
