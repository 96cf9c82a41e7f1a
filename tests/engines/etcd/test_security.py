"""Certificates and logins."""

import base64
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.core.messages import Held
from holdfast.engines.etcd import locks
from tests.equipment.servers.certificates import (
    Certificates,
    make_certificates,
    make_client_certificate,
)
from tests.equipment.servers.etcd import EtcdServer, find_etcd_wheel
from tests.patience import wait_for

pytestmark = pytest.mark.slow


COUNTING = 0.1
"""Seconds between two looks at a server's metrics: to count its calls, it has to write them all."""

FOR_GOOD = "cannot be used like this"
"""What errors say that waiting does not heal."""

SOON = Held(3.0, wakes=True)
"""A waiter asks again soon, although it was not woken."""


def takes(url: str, **options: Any) -> bool:
    with holdfast.Client(url, **options) as client:
        lease = client.lock("door").acquire(blocking=False)
        if lease:
            lease.release()
        return bool(lease)


def refusal(url: str, **options: Any) -> str:
    with pytest.raises(holdfast.EngineUnavailable) as error:
        takes(url, **options)
    return str(error.value)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def of_a_client(certificates: Certificates) -> Certificates:
    return make_client_certificate(certificates)


def test_a_server_with_a_certificate(certificates: Certificates, tmp_path: Path) -> None:
    stranger = make_certificates(tmp_path)
    with EtcdServer(tls=certificates) as server:
        assert takes(server.url)
        plain = server.url.partition("?")[0]
        assert takes(plain, ca_cert=certificates.authority)
        assert refusal(plain, ca_cert=stranger.authority)
        assert refusal(plain.replace("etcds://", "etcd://"))


def test_a_server_that_wants_to_see_a_certificate(
    certificates: Certificates, of_a_client: Certificates
) -> None:
    with EtcdServer(tls=certificates, client_certs=True) as server:
        assert takes(server.url, cert=of_a_client.certificate, key=of_a_client.key)
        assert refusal(server.url)


def test_files_are_read_when_the_client_is_made(
    certificates: Certificates, of_a_client: Certificates, tmp_path: Path
) -> None:
    """They may be replaced, or out of reach, when the client connects, as in a forked child."""
    given = certificates.authority, of_a_client.certificate, of_a_client.key
    ca_cert, cert, key = files = [tmp_path / each.name for each in given]
    for path, original in zip(files, given, strict=True):
        path.write_bytes(original.read_bytes())
    with (
        EtcdServer(tls=certificates, client_certs=True) as server,
        holdfast.Client(f"etcds://{server.address}", ca_cert=ca_cert, cert=cert, key=key) as client,
    ):
        for path in files:
            path.unlink()
        with client.lock("door", timeout=30):
            pass


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    """A server on which `ann` may touch what begins with `holdfast:`, and nothing else. Whoever has
    said nothing for a second must log in again."""
    folder = tmp_path_factory.mktemp("guarded")
    soon = ("--auth-token-ttl", "1")
    with EtcdServer(folder, program=find_etcd_wheel(), options=soon) as server:
        for user in ("root", "ann"):
            server.command("auth/user/add", name=user, password="se:cr/et")
            server.command("auth/role/add", name=user)
            server.command("auth/user/grant", user=user, role=user)
        start, end = (base64.b64encode(key).decode() for key in (b"holdfast:", b"holdfast;"))
        allowed = {"permType": "READWRITE", "key": start, "range_end": end}
        server.command("auth/role/grant", name="ann", perm=allowed)
        server.command("auth/enable")
        yield server


def login(server: EtcdServer, user: str = "ann:se%3Acr%2Fet") -> str:
    return f"etcd://{user}@{server.address}"


def test_a_user_with_a_password(guarded: EtcdServer) -> None:
    assert takes(login(guarded))
    wrong = refusal(login(guarded, "ann:wrong"))
    assert "password" in wrong
    assert FOR_GOOD in wrong
    assert "se:cr" not in refusal(login(guarded, "ann:se%3Acr"))
    assert refusal(f"etcd://{guarded.address}")


def test_a_user_who_may_not(guarded: EtcdServer) -> None:
    refused = refusal(login(guarded), prefix="other:")
    assert "permission denied" in refused
    assert FOR_GOOD in refused


def test_a_login_that_is_forgotten_is_repeated(guarded: EtcdServer) -> None:
    """A restarted server knows none of its tokens any more."""
    with holdfast.Client(login(guarded)) as client:
        lease = client.lock("door").acquire()
        assert lease
        cell = client.cell("stock")
        cell.set("1", expect=0)
        guarded.restart()
        lease.extend()
        lease.release()
        guarded.restart()
        assert client.cell("stock").update(lambda value: "2") == "2"
        guarded.restart()
        assert cell.set("3", expect=cell.get().version)


def test_a_stream_whose_login_has_expired_is_opened_anew(
    guarded: EtcdServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever comes to wait then would have its watch refused on it, again and again."""
    monkeypatch.setattr(locks, "HELD", SOON)  # the next request, which needs a login

    def take_turn() -> int:
        with client.lock("door") as lease:
            return lease.fence

    with holdfast.Client(login(guarded)) as client, ThreadPoolExecutor(2) as pool:
        with client.lock("door"):
            streams = guarded.calls("Watch")
            first = pool.submit(take_turn)
            wait_for_a_login(guarded, streams)
            second = pool.submit(take_turn)
            wait_for(lambda: guarded.calls("Watch") > streams + 1, COUNTING)
        assert first.result() < second.result()


def wait_for_a_login(server: EtcdServer, streams: int) -> None:
    """Wait until there is another stream, and the client that opened it had to log in since."""
    wait_for(lambda: server.calls("Watch") > streams, COUNTING)
    logins = server.calls("Authenticate")
    wait_for(lambda: server.calls("Authenticate") > logins, COUNTING)
