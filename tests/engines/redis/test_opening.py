"""A connection that is being made can be given up, at every step of it."""

import asyncio
import gc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio.connection import SSLConnection
from redis.exceptions import RedisError

import holdfast
from holdfast.engines.redis.addresses import Address, sentinel
from holdfast.engines.redis.addresses import server as address_of
from holdfast.engines.urls import Endpoint
from holdfast.lab.servers.redis import RedisServer
from tests.contract.steps import Cut, cut_everywhere, cut_short
from tests.engines.redis.conftest import Invite
from tests.equipment.servers.certificates import make_certificates
from tests.equipment.servers.proxy import Proxy
from tests.equipment.servers.secured import SecuredRedis


@pytest.mark.parametrize("settings", [{}, {"db": 2}, {"client_name": "me"}], ids=str)
def test_no_step_swallows_a_cancellation(server: RedisServer, settings: dict[str, Any]) -> None:
    """One who listens for ever would never end, and neither would the program."""
    host, _, port = server.address.rpartition(":")
    address = address_of({"host": host, "port": int(port), **settings})
    assert asyncio.run(given_up_everywhere(address)) > 5


def test_no_question_to_a_sentinel_swallows_one(server: RedisServer) -> None:
    host, _, port = server.address.rpartition(":")
    no_sentinel = sentinel([Endpoint(host, int(port))], "service", {}, {})
    assert asyncio.run(given_up_everywhere(no_sentinel)) > 5


async def given_up_everywhere(address: Address) -> int:
    async def opened() -> None:
        try:
            writer = await address.open_async(10)
        except Exception:
            return
        writer.transport.abort()

    async def attempt(cut: Cut) -> bool:
        return await cut_short(opened(), cut)

    return await cut_everywhere(attempt)


def test_none_leaves_a_connection_behind_that_was_refused(tmp_path: Path) -> None:
    """TLS has a farewell of its own, and the loop may end before the server has answered it."""
    tls = make_certificates(tmp_path)
    with SecuredRedis(password="a-secret", tls=tls) as server:
        host, _, port = server.address.rpartition(":")
        secured = {"ssl_ca_certs": str(tls.authority), "ssl_cert_reqs": "required"}
        address = address_of(
            {"host": host, "port": int(port), "password": "another", **secured}, SSLConnection
        )
        for at in range(30):
            asyncio.run(given_up(address, Cut(at, late=False)))
            gc.collect()  # a connection that is left behind is an error now


def test_an_encrypted_connection_is_closed_after_its_loop_has_ended(tmp_path: Path) -> None:
    async def used(url: str) -> holdfast.AsyncClient:
        client = holdfast.AsyncClient(url)
        async with client.lock("job"):
            return client

    with SecuredRedis(password="a-secret", tls=make_certificates(tmp_path)) as server:
        client = asyncio.run(used(server.url))
        asyncio.run(client.aclose())
        del client
        gc.collect()  # a connection that is left behind is an error now


async def given_up(address: Address, cut: Cut) -> None:
    with suppress(RedisError):
        await cut_short(address.open_async(10), cut)


@pytest.mark.parametrize("mode", ["async"], indirect=True)
def test_a_server_far_away_is_reached_if_there_is_no_other(
    server: RedisServer, invite: Invite
) -> None:
    """To introduce oneself takes several round trips; TLS and sentinels, still more."""
    with Proxy(server.port) as proxy:
        proxy.delay(0.3)
        far = invite(f"redis://{proxy.address}", ttl=30)
        far(far.takes(timeout=20).release)
        proxy.heal()
