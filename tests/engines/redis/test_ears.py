"""Being woken under asyncio, when somebody cancels what hears, and when a client is dropped."""

import asyncio
import logging

import pytest

from holdfast import AsyncClient
from holdfast.lab.servers.masters import RedisMasters
from holdfast.lab.servers.redis import RedisServer

LONG = 86400.0
"""Seconds that a lock is held if nobody gives it back: whoever is not woken waits for as long."""


@pytest.mark.timeout(60)
def test_whoever_waits_is_woken_also_after_somebody_has_cancelled_all_tasks(
    server: RedisServer,
) -> None:
    async def main() -> None:
        async with AsyncClient(server.url, ttl=LONG) as ann, AsyncClient(server.url) as ben:
            for _ in range(2):
                held = await ben.lock("job", ttl=LONG).acquire()
                assert held is not None
                waiting = asyncio.create_task(ann.lock("job").acquire())
                await _until_somebody_waits(ben)
                await held.release()
                lease = await waiting
                assert lease is not None
                await lease.release()
                for task in asyncio.all_tasks() - {asyncio.current_task()}:
                    task.cancel()
                server.command("CLIENT", "KILL", "TYPE", "pubsub")
                await asyncio.sleep(0)

    asyncio.run(main())


def test_a_client_that_is_dropped_does_not_say_that_its_nodes_are_down(
    three: RedisMasters, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        client = AsyncClient(f"{three.url}?restart_guard=off")
        async with client.lock("job"):
            pass
        channels = client._driver._store._channels[:]  # type: ignore[attr-defined]
        holders = [client]
        del client
        with pytest.warns(ResourceWarning):
            holders.clear()
        await asyncio.wait([channel.lost for channel in channels])
        await asyncio.sleep(0)

    with caplog.at_level(logging.INFO, "holdfast"):
        asyncio.run(main())
    assert "does not answer" not in caplog.text


async def _until_somebody_waits(client: AsyncClient) -> None:
    for _ in range(5000):
        if (info := await client.inspect("job")) and info.waiters:
            return
        await asyncio.sleep(0.001)
    pytest.fail("nobody waits")
