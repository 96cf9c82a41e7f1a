"""Ways to a server: TLS, logins, sockets, databases; and what is refused before any is tried."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from holdfast import AsyncClient, Client, EngineUnavailable
from holdfast.lab.servers.redis import RedisServer
from holdfast.options import without_password
from tests.engines.redis.conftest import Invite
from tests.equipment.servers.certificates import (
    Certificates,
    make_certificates,
    make_client_certificate,
)
from tests.equipment.servers.masters import RedisMasters
from tests.equipment.servers.secured import SecuredRedis
from tests.patience import wait_for

SECRET = "p@ss:w/rd?#%25 x"
SHOWN = (SECRET, quote(SECRET, safe=""), "w/rd", "p@ss")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("trusted"))


@pytest.fixture(scope="module")
def encrypted(certificates: Certificates) -> Iterator[SecuredRedis]:
    with SecuredRedis(tls=certificates) as server:
        yield server


@pytest.fixture(scope="module")
def guarded() -> Iterator[SecuredRedis]:
    users = {
        "ann": ("on", f">{SECRET}", "~*", "&*", "+@all"),
        "eve": ("on", ">x", "~*", "-@all"),
        "tom": ("on", ">x", "~other:*", "&*", "+@all"),
    }
    with SecuredRedis(password=SECRET, users=users, unix_socket=True) as server:
        yield server


@pytest.mark.slow
def test_tls_with_an_authority(encrypted: SecuredRedis, invite: Invite) -> None:
    ann = invite(encrypted.url)
    lease = ann.takes("job")
    waiting = ann.begin(ann.client.lock("job").acquire)
    wait = ann(ann.client.inspect, "job")
    assert wait.holder == lease.holder
    ann(lease.release)
    later = waiting.result(10)
    ann(later.release)


@pytest.mark.slow
def test_a_certificate_that_nobody_vouches_for(
    encrypted: SecuredRedis, invite: Invite, tmp_path: Path
) -> None:
    for options in ({}, {"ssl_ca_certs": make_certificates(tmp_path).authority}):
        ann = invite(f"rediss://{encrypted.address}", **options)
        assert "certificate verify failed" in ann.refused()[encrypted.address]
    ben = invite(f"rediss://{encrypted.address}", ssl_cert_reqs="none")
    ben(ben.takes().release)


@pytest.mark.slow
def test_a_certificate_for_another_host(encrypted: SecuredRedis, invite: Invite) -> None:
    """`127.1` is the address of the server, and not in its certificate."""
    url = encrypted.url.replace("127.0.0.1", "127.1")
    assert "certificate is not valid for '127.1'" in str(invite(url).refused())
    ben = invite(url, ssl_check_hostname=False)
    ben(ben.takes().release)


@pytest.mark.slow
def test_a_clients_own_certificate(certificates: Certificates, invite: Invite) -> None:
    mine = make_client_certificate(certificates)
    with SecuredRedis(tls=certificates) as server:
        server.command("CONFIG", "SET", "tls-auth-clients", "yes")
        assert invite(server.url, ttl=3).refused()
        ben = invite(server.url, ssl_certfile=mine.certificate, ssl_keyfile=mine.key)
        ben(ben.takes().release)


@pytest.mark.slow
def test_a_server_with_tls_and_a_client_without(encrypted: SecuredRedis, invite: Invite) -> None:
    ann = invite(f"redis://{encrypted.address}")
    assert encrypted.address in ann.refused(ttl=1)


@pytest.mark.slow
def test_a_quorum_with_tls(certificates: Certificates, invite: Invite) -> None:
    masters = RedisMasters(count=3)
    masters.servers = [SecuredRedis(tls=certificates) for _ in range(3)]
    with masters:
        options = {"ssl_ca_certs": certificates.authority, "restart_guard": False}
        ann = invite(f"{masters.url}?tls=on", **options)
        lease = ann.takes()
        holders = [server.command("GET", "holdfast:job") for server in masters.servers]
        assert holders.count(lease.holder) >= 2
        ann(lease.release)
        ben = invite(f"{masters.url}?tls=on", ssl_ca_certs=certificates.authority)
        wait_for(lambda: sum("restarted" in why for why in ben.refused().values()) > 1)


@pytest.mark.slow
def test_users_and_passwords(guarded: SecuredRedis, invite: Invite) -> None:
    for url in (guarded.url, guarded.url_for("ann", SECRET), guarded.unix_url):
        ann = invite(url)
        ann(ann.takes().release)
        for text in (repr(ann.client), ann.client.url, str(ann.client.guarantees)):
            assert not any(part in text for part in SHOWN)
    assert "ann@" in invite(guarded.url_for("ann", SECRET)).client.url


@pytest.mark.slow
@pytest.mark.parametrize("login", ["", "ann:secret@"])
def test_protected_mode_is_reported_at_once(invite: Invite, login: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
        try:
            route.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            pytest.skip("this host has no address but that of its loopback interface")
        host = route.getsockname()[0]
    with RedisServer(options=("--bind", "*", "--protected-mode", "yes")) as server:
        ann = invite(f"redis://{login}{host}:{server.port}")
        with pytest.raises(EngineUnavailable, match="protected mode") as caught:
            ann.takes(timeout=20)
        assert len(str(caught.value)) < 400
        ben = invite(server.url)
        ben(ben.takes().release)


@pytest.mark.slow
def test_a_server_with_too_many_clients_says_so(invite: Invite) -> None:
    with RedisServer() as server, server.connect(5) as last:
        assert last.command("CONFIG", "SET", "maxclients", 1) == "OK"
        ann = invite(server.url)
        assert "max number of clients" in ann.refused()[server.address]
        assert last.command("CONFIG", "SET", "maxclients", 100) == "OK"
        ann(ann.takes().release)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("user", "password", "database", "why"),
    [
        ("ann", SECRET + "!", 0, "invalid username-password pair"),
        ("nobody", SECRET, 0, "invalid username-password pair"),
        ("", SECRET + "!", 0, "invalid username-password pair"),
        ("", "", 0, "Authentication required"),
        ("eve", "x", 0, "no permissions"),
        ("tom", "x", 0, "access"),  # may not touch these keys
        ("ann", SECRET, 99, "out of range"),
    ],
)
def test_what_waiting_will_not_heal_is_said_at_once_without_the_password(
    guarded: SecuredRedis, invite: Invite, user: str, password: str, database: int, why: str
) -> None:
    ann = invite(f"{guarded.url_for(user, password).removesuffix('0')}{database}")
    with pytest.raises(EngineUnavailable, match=why) as caught:
        ann.takes(timeout=600)
    chain: BaseException | None = caught.value
    while chain is not None:
        assert not any(part in repr(chain) for part in SHOWN)
        chain = chain.__cause__ or chain.__context__


@pytest.mark.slow
def test_a_server_that_repeats_the_login_in_its_error(invite: Invite) -> None:
    """As one does that does not know the command."""
    with RedisServer(options=("--rename-command", "AUTH", "")) as server:
        ann = invite(f"redis://ann:{quote(SECRET, safe='')}@{server.address}")
        with pytest.raises(EngineUnavailable, match="unknown command") as caught:
            ann.takes(timeout=20)
        assert SECRET not in str(caught.value)


@pytest.mark.slow
def test_databases_have_nothing_to_do_with_each_other(
    server: RedisServer, guarded: SecuredRedis, invite: Invite
) -> None:
    address = server.address
    ann, ben = invite(f"redis://{address}/3"), invite(f"redis://{address}")
    lease, other = ann.takes(), ben.takes()
    assert [info.holder for info in ann(ann.client.leases)] == [lease.holder]
    cleo = invite(f"redis://{address}/3")
    assert cleo.tries() is None
    ann(lease.release)
    assert ben(ben.client.inspect, "job").holder == other.holder
    ben(other.release)
    dora = invite(f"unix://{guarded.login}{guarded.socket}?db=5")
    lease = dora.takes()
    assert "db5" in guarded.info("keyspace")
    dora(lease.release)


@pytest.mark.slow
def test_the_name_of_a_client(server: RedisServer, invite: Invite) -> None:
    ann = invite(f"{server.url}?client_name=invoices", ttl=20)
    ann(ann.takes().release)
    assert "name=invoices " in str(server.command("CLIENT", "LIST"))


@pytest.mark.slow
def test_an_address_of_ipv6(invite: Invite) -> None:
    with RedisServer(options=("--bind", "127.0.0.1", "::1")) as server:
        ann = invite(f"redis://[::1]:{server.port}/0")
        ann(ann.takes().release)
        server.freeze()
        assert set(ann.refused(ttl=0.5)) == {f"[::1]:{server.port}"}
        server.thaw()


REFUSED = [
    ("redis://h1:1,h2:2", "one server"),
    ("rediss://h1,h2", "one server"),
    ("redis://h:0", "port"),
    ("redis://h:65536", "port"),
    ("redis://h:six", "port"),
    ("redlock://h1:1,h2:x,h3", "'h2:x'"),
    ("redlock://h1,,h3", "empty"),
    ("redlock://h1,h2,h1:6379", "twice"),
    ("redlock://h1,h2,H1", "twice"),
    ("redis://h..example", "'h..example'"),
    (f"redis+sentinel://{'h' * 64}/service", "'hhh"),
    ("redis+cluster://h..example", "'h..example'"),
    ("redis://::1", "brackets"),
    ("redis://[::1", "url"),
    ("redis://h/one", "'one'"),
    ("redis://h/-1", "'-1'"),
    ("redis://h/1/2", "'1/2'"),
    ("redis://h/1000001", "'1000001'"),
    (f"redlock://h1,h2,h3/{'9' * 5000}", "'999"),
    ("redis+cluster://h/1", "database"),
    ("redis+sentinel://h", "service"),
    ("unix://", "socket"),
    ("unix://relative/path", "socket"),
    ("unix:///s?db=x", "db"),
    ("redis://h?replicas=many", "replicas"),
    ("redis://h?replicas=-1", "replicas"),
    ("redis://h?fence_keep=0", "fence_keep"),
    ("redis://h?tls=perhaps", "tls"),
    ("redis://h?client_name=two%20words", "client_name"),
    ("redis://h?max_ttl=60", "max_ttl"),
    ("redis://h?restart_guard=on", "restart_guard"),
    ("redis://h?database=1", "database"),
    ("rediss://h?ssl_ca_certs=/no/such/file", "/no/such/file"),
    ("rediss://h?ssl_cert_reqs=never", "ssl_cert_reqs"),
    ("redlock://h1,h2,h3?max_ttl=long", "max_ttl"),
    ("redlock://h1,h2,h3?restart_guard=maybe", "restart_guard"),
    ("redlock://h1,h2,h3?ttl=90", "ttl"),
    *((f"redlock://h1,h2,h3?node_timeout={value}", f"'{value}'") for value in (0, -1, 61, "soon")),
]


@pytest.mark.parametrize(("url", "named"), REFUSED)
@pytest.mark.parametrize("make", [Client, AsyncClient])
def test_what_is_refused_before_anything_is_asked(make: Any, url: str, named: str) -> None:
    with pytest.raises(ValueError, match=r"^\w+: ") as caught:
        make(url)
    assert named in str(caught.value)


SECRETIVE = [
    "redis://:hush@h:port",
    "redis://ann:hush@h1,h2",
    "redis://h?password=hush",
    "redis://h?password=hush&ttl=x",
    "redis://h?ttl=1&ttl=2&sentinel_password=hush",
    "redis://:hu/hush@h",
    "redis://:hu?hush@h",
    "redis://:hu#hush@h",
    "redis://:hu@hush@h:port",
    "redis+sentinel://:hush@h",
    "rediss://:hush@[h",
    "unix://:hush@host/path",
    b"redis://:hush@h",
    ["redis://:hush@h"],
]


@pytest.mark.parametrize("url", SECRETIVE, ids=str)
def test_no_error_tells_a_password(url: Any) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        Client(url)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://h/0", "redis://h/0"),
        ("redis://:x@h/0", "redis://@h/0"),
        ("redis+sentinel://a:x@h1,h2/s?sentinel_password=y&ttl=5",
         "redis+sentinel://a@h1,h2/s?sentinel_password=...&ttl=5"),
        ("sqlite:///home/me@work/x.db", "sqlite:///home/me@work/x.db"),
        ("unix://:x@/run/s", "unix://@/run/s"),
    ],
)  # fmt: skip
def test_a_url_as_it_is_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown
