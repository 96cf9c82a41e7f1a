"""A user's own redis-py clients instead of a URL, and the engine's options as arguments."""

import builtins
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.sentinel import Sentinel

import holdfast
from holdfast.lab.servers.process import HOST
from holdfast.lab.servers.redis import RedisServer
from tests.engines.redis.conftest import Invite
from tests.engines.redis.party import Mode
from tests.equipment.servers.certificates import make_certificates
from tests.equipment.servers.cluster import RedisCluster
from tests.equipment.servers.masters import RedisMasters
from tests.equipment.servers.secured import SecuredRedis
from tests.equipment.servers.sentinel import Sentinel as Watchman
from tests.equipment.servers.sentinel import SentinelSet
from tests.patience import wait_for

SECRET = "hush-hush"


def of(mode: Mode) -> Any:
    return redis if mode == "sync" else redis.asyncio


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredRedis]:
    certificates = make_certificates(tmp_path_factory.mktemp("certificates"))
    with SecuredRedis(password=SECRET, tls=certificates, unix_socket=True) as server:
        yield server


def assert_unused(client: Any) -> None:
    """Nobody has made a connection with it, and nobody has closed it."""
    pool = client.connection_pool
    assert not pool._available_connections
    assert not pool._in_use_connections


def test_one_client_is_one_server(server: RedisServer, invite: Invite, mode: Mode) -> None:
    own = of(mode).Redis(port=server.port, db=3, decode_responses=True, client_name="mine")
    ann, ben = invite(own, ttl=7), invite(f"{server.url[:-1]}3")
    assert ann.client.url == f"redis://localhost:{server.port}/3"
    assert ann.client.guarantees == ben.client.guarantees
    lease = ann.takes()
    assert lease.ttl == 7
    assert ben.tries() is None
    assert "name=mine " in str(server.command("CLIENT", "LIST"))
    waiting = ben.begin(ben.client.lock("job").acquire)
    ann(lease.release)
    ben(waiting.result(10).release)
    assert_unused(own)


@pytest.mark.slow
def test_settings_are_taken_over(guarded: SecuredRedis, invite: Invite, mode: Mode) -> None:
    trust = str(guarded.tls and guarded.tls.authority)
    kind = of(mode).Redis
    owns = [
        kind(host=HOST, port=guarded.port, password=SECRET, ssl=True, ssl_ca_certs=trust),
        kind.from_url(f"rediss://:{SECRET}@{HOST}:{guarded.port}/2", ssl_ca_certs=trust),
        kind(unix_socket_path=str(guarded.socket), password=SECRET),
        kind(
            unix_socket_path=str(guarded.socket),
            credential_provider=redis.UsernamePasswordCredentialProvider("default", SECRET),
        ),
    ]
    urls = []
    for own in owns:
        ann = invite(own)
        ann(ann.takes().release)
        urls.append(ann.client.url)
        assert SECRET not in repr(ann.client) + urls[-1]
        assert_unused(own)
    path = f"unix://{guarded.socket}"
    assert urls == [f"rediss://{guarded.address}/0", f"rediss://{guarded.address}/2", path, path]


def test_several_clients_are_a_quorum(three: RedisMasters, invite: Invite, mode: Mode) -> None:
    owns = [of(mode).Redis(host=HOST, port=server.port) for server in three.servers]
    ann = invite(owns, restart_guard=False, node_timeout=2)
    ben = invite(f"{three.url}?restart_guard=off&node_timeout=2")
    assert ann.client.url == three.url
    assert "quorum" in ann.client.guarantees.engine
    lease = ann.takes()
    wait_for(lambda: all(server.command("GET", "holdfast:job") for server in three.servers))
    assert ben.tries() is None
    three.servers[0].freeze()
    ann(lease.extend)
    ann(lease.release)
    three.servers[0].thaw()
    for own in owns:
        assert_unused(own)


@pytest.mark.slow
def test_a_client_of_a_sentinel_service(invite: Invite, mode: Mode) -> None:
    with SentinelSet(password=SECRET) as watched:
        manage = Sentinel if mode == "sync" else AsyncSentinel
        hosts = [(HOST, sentinel.port) for sentinel in watched.sentinels]
        own = manage(hosts).master_for(watched.service, password=SECRET, db=1)
        ann = invite(own, replicas=1)
        assert ann.client.url == f"{watched.url.replace(f':{SECRET}@', '')}/1"
        assert "Sentinel" in ann.client.guarantees.engine
        ann(ann.takes().release)
        former = watched.master
        assert watched.fail_over() is not former
        lease = ann.takes(timeout=10)
        assert "db1" in watched.master.info("keyspace")
        ann(lease.release)
        assert_unused(own)


def test_a_client_of_replicas_is_of_no_use(mode: Mode) -> None:
    manage = Sentinel if mode == "sync" else AsyncSentinel
    make = holdfast.Client if mode == "sync" else holdfast.AsyncClient
    with pytest.raises(ValueError, match="replicas"):
        make(manage([("h", 1)]).slave_for("service"))


@pytest.mark.slow
def test_tls_behind_sentinels_without_it(guarded: SecuredRedis, invite: Invite, mode: Mode) -> None:
    with Watchman() as sentinel:
        sentinel.watch("service", guarded, quorum=1, down_after=30)
        manage = Sentinel if mode == "sync" else AsyncSentinel
        own = manage([(HOST, sentinel.port)]).master_for("service", password=SECRET, ssl=True)
        ann = invite(own)
        assert "certificate verify failed" in str(ann.refused())
        trust = str(guarded.tls and guarded.tls.authority)
        options: Any = {"password": SECRET, "ssl": True, "ssl_ca_certs": trust}
        ben = invite(manage([(HOST, sentinel.port)]).master_for("service", **options))
        ben(ben.takes().release)


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    with RedisCluster() as cluster:
        yield cluster


@pytest.mark.slow
def test_a_client_of_a_cluster(cluster: RedisCluster, invite: Invite, mode: Mode) -> None:
    own = of(mode).RedisCluster(host=HOST, port=cluster.nodes[0].port)
    ann = invite(own)
    assert ann.client.url.startswith("redis+cluster://")
    for number in range(10):
        ann(ann.takes(f"job {number}").release)
    if mode == "sync":
        own.close()


@pytest.mark.parametrize("several", [False, True])
def test_a_client_of_the_other_mode(mode: Mode, several: bool) -> None:
    wrong, right = of("async" if mode == "sync" else "sync"), of(mode)
    make = holdfast.Client if mode == "sync" else holdfast.AsyncClient
    needed = "redis.Redis" if mode == "sync" else "redis.asyncio.Redis"
    own = wrong.Redis(port=1, password=SECRET)
    given = [right.Redis(port=2), own] if several else own
    with pytest.raises(TypeError, match=f"url: .*{needed}") as caught:
        make(given)
    assert f"{type(own).__module__}.Redis" in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("given", [[], (), [redis.Redis(), "redis://h"], redis.Redis, object(), {}])
def test_what_is_neither_a_url_nor_a_client(given: Any) -> None:
    for make in (holdfast.Client, holdfast.AsyncClient):
        with pytest.raises(TypeError, match="url: must be text, or one or several clients"):
            make(given)


def test_the_same_server_twice_is_no_quorum(mode: Mode) -> None:
    make = holdfast.Client if mode == "sync" else holdfast.AsyncClient
    with pytest.raises(ValueError, match="localhost:6379 twice"):
        make([of(mode).Redis(), of(mode).Redis(db=1)])


@pytest.mark.parametrize("make", [holdfast.Client, holdfast.AsyncClient])
class TestOptionsAsArguments:
    def test_they_are_as_those_of_the_url_and_go_before_them(self, make: Any) -> None:
        client = make("redlock://h1,h2,h3?max_ttl=5", max_ttl=120, restart_guard=True, ttl=100)
        assert client.guarantees.max_ttl == 120
        client = make("redlock://h1,h2,h3?restart_guard=on", restart_guard=False)
        assert any("restart" in way for way in client.guarantees.broken_by)

    def test_with_clients_too(self, make: Any) -> None:
        kind = redis.Redis if make is holdfast.Client else redis.asyncio.Redis
        owns: list[Any] = [kind(port=port) for port in (1, 2, 3)]
        assert make(owns, max_ttl=90).guarantees.max_ttl == 90
        with pytest.raises(ValueError, match="max_ttl: "):
            make(owns[0], max_ttl=90)

    @pytest.mark.parametrize("url", ["redis://h", "redlock://h1,h2,h3", "redis+cluster://h",
                                     "memory://", "sqlite:///tmp/x.db"])  # fmt: skip
    def test_one_that_the_engine_does_not_know(self, make: Any, url: str) -> None:
        with pytest.raises(ValueError, match="replica: ") as caught:
            make(url, replica="hush")
        assert "hush" not in str(caught.value)

    @pytest.mark.parametrize("value", ["many", -1, 1.5, True, 101])
    def test_a_bad_value(self, make: Any, value: Any) -> None:
        with pytest.raises(ValueError, match="replicas: "):
            make("redis://h", replicas=value)
        with pytest.raises(TypeError, match="replicas: "):
            make("redis://h", replicas=[value])


def test_a_library_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "hiredis":
            raise ModuleNotFoundError("No module named 'hiredis'", name="hiredis")
        return real(name, *rest, **more)

    for name in [name for name in sys.modules if name.startswith("holdfast.engines.redis")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'holdfast\[redis\]'") as caught:
        holdfast.Client("redis://h")
    assert caught.value.name == "hiredis"


def test_a_url_of_another_engine_does_not_import_redis() -> None:
    code = "import sys, holdfast; holdfast.Client('memory://').close(); print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"redis", "hiredis", "asyncio"} & set(out.stdout.split())
