"""TLS, and users that may do only so much, in front of sentinels' masters and of clusters."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.sentinel import Sentinel

import holdfast
from holdfast.lab.servers.process import HOST
from tests.engines.redis.conftest import Invite
from tests.engines.redis.party import Mode, Party
from tests.equipment.servers.certificates import Certificates, make_certificates
from tests.equipment.servers.cluster import RedisCluster
from tests.equipment.servers.secured import SecuredRedis
from tests.equipment.servers.sentinel import SentinelSet
from tests.patience import wait_for

pytestmark = pytest.mark.slow

SECRET = "hush-hush"
LOGIN = f"ann:{SECRET}@"
KEYS = ("~holdfast:*", "~{holdfast:*", "&holdfast:*")
LOCKS = (
    *("+@connection", "+evalsha", "+script|load", "+time"),
    *("+get", "+set", "+del", "+exists", "+pttl", "+pexpire", "+publish", "+subscribe"),
    *("+zadd", "+zrem", "+zrange", "+zscore", "+pubsub|numsub"),
)
CELLS = ("+watch", "+multi", "+exec", "+hget", "+hmget", "+hset")
USERS = {"ann": ("on", f">{SECRET}", "-@all", *KEYS, *LOCKS, *CELLS, "+wait", "+cluster|slots")}
"""One user with no more than it takes, as in the documentation."""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def watched(certificates: Certificates) -> Iterator[SentinelSet]:
    with SentinelSet(password="a-secret", users=USERS, tls=certificates, down_after=3.0) as watched:
        yield watched


@pytest.fixture(scope="module")
def cluster(certificates: Certificates) -> Iterator[RedisCluster]:
    with RedisCluster(password="a-secret", users=USERS, tls=certificates) as cluster:
        yield cluster


@pytest.fixture(params=["watched", "cluster"])
def place(request: pytest.FixtureRequest) -> SentinelSet | RedisCluster:
    servers: SentinelSet | RedisCluster = request.getfixturevalue(request.param)
    return servers


def test_locks_and_cells_of_a_user_who_may_do_no_more(
    place: SentinelSet | RedisCluster, invite: Invite
) -> None:
    ann, ben = invite(place.url_with(LOGIN)), invite(place.url_with(LOGIN))
    assert SECRET not in ann.client.url
    for number in range(3):  # in a cluster, on several masters
        lease = ann.takes(f"job {number}")
        waiting = ben.begin(ben.client.lock(lease.name).acquire, timeout=20)
        wait_for(lambda: ann(ann.client.inspect, lease.name).waiters == 1)  # noqa: B023 - at once
        ann(lease.extend, ttl=50)
        ann(lease.release)
        later = waiting.result(20)
        assert later.fence > lease.fence
        ben(later.release)
    shares = [ann(ann.client.semaphore("hall", 2).acquire) for _ in range(2)]
    waiting = ben.begin(ben.client.semaphore("hall", 2).acquire, timeout=20)
    wait_for(lambda: ann(ann.client.inspect, "hall").waiters == 1)
    for lease in shares:
        ann(lease.release)
    ben(waiting.result(20).release)
    cell = ann.client.cell("stock")
    assert ann(cell.update, lambda value: "1") == "1"
    assert ben(ben.client.cell("stock").get).value == "1"


def test_who_is_not_let_in_is_told_why(
    place: SentinelSet | RedisCluster, invite: Invite, tmp_path: Path
) -> None:
    url = place.url_with(LOGIN)
    plain, trust = url.partition("?")[::2]
    refusals = {
        place.url_with("ann:wrong@"): "invalid username-password pair",
        place.url_with(""): "Authentication required",
        url.replace(trust, make_certificates(tmp_path).as_option()): "certificate verify failed",
        plain: "",  # not encrypted: the server hangs up
    }
    for wrong, why in refusals.items():
        stranger = invite(wrong, ttl=15)

        def is_told(stranger: Party = stranger, why: str = why) -> bool:
            told = str(stranger.refused())
            assert SECRET not in told
            return why in told

        wait_for(is_told)  # to connect may take a busy machine too long


def test_a_users_own_client_of_a_cluster(cluster: RedisCluster, invite: Invite, mode: Mode) -> None:
    make = redis.RedisCluster if mode == "sync" else redis.asyncio.RedisCluster
    own: Any = make(host=HOST, port=cluster.nodes[1].port, **settings(cluster.nodes[0]))
    ann = invite(own)
    ann(ann.takes().release)
    assert "a-secret" not in ann.client.url
    if mode == "sync":
        own.close()


def test_a_users_own_client_of_sentinels(watched: SentinelSet, invite: Invite, mode: Mode) -> None:
    words = settings(watched.servers[0])
    login = {word: words.pop(word) for word in ("username", "password")}
    hosts = [(HOST, sentinel.port) for sentinel in watched.sentinels]
    manage: Any = Sentinel if mode == "sync" else AsyncSentinel
    managed = manage(hosts, sentinel_kwargs=words, **words)
    ann = invite(managed.master_for(watched.service, **login))
    ann(ann.takes().release)
    assert "a-secret" not in ann.client.url


def settings(server: SecuredRedis) -> dict[str, Any]:
    """How redis-py is to connect."""
    trust = str(server.tls and server.tls.authority)
    return {"username": "default", "password": "a-secret", "ssl": True, "ssl_ca_certs": trust}


def test_tls_to_a_port_that_waits_for_more_is_explained() -> None:
    """So does a server without TLS, for what looks like half a command."""
    with socket.create_server((HOST, 0)) as silent:
        port = silent.getsockname()[1]
        with (
            holdfast.Client(f"rediss://{HOST}:{port}", ttl=1) as client,
            pytest.raises(holdfast.EngineUnavailable, match="use redis://, not rediss://"),
        ):
            client.lock("door").acquire(blocking=False)
