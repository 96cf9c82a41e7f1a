"""Being woken under asyncio, when somebody cancels what hears, and when a client is dropped."""

import asyncio
import gc
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdfast import AsyncClient
from holdfast.lab.servers.redis import RedisServer
from tests.equipment.servers.masters import RedisMasters

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


def test_a_loop_that_dies_with_a_waiter_inside_says_nothing_odd(server: RedisServer) -> None:
    async def main() -> list[object]:
        ann, ben = AsyncClient(server.url), AsyncClient(server.url)
        lease = await ann.lock("job").acquire()
        waiting.append(asyncio.create_task(ben.lock("job").acquire()))
        await _until_somebody_waits(ann)
        return [ann, ben, lease]

    waiting: list[asyncio.Task[object]] = []
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda loop, context: None)  # the tasks that are destroyed
    kept = loop.run_until_complete(main())
    loop.close()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with unraised() as errors:
            waiting.clear()
            kept.clear()
            gc.collect()
    assert errors == []
    assert {warning.category for warning in caught} <= {ResourceWarning}


@contextmanager
def unraised() -> Iterator[list[object]]:
    """What is raised where nobody can catch it."""
    errors: list[object] = []
    before, sys.unraisablehook = sys.unraisablehook, errors.append
    try:
        yield errors
    finally:
        sys.unraisablehook = before


async def _until_somebody_waits(client: AsyncClient) -> None:
    for _ in range(5000):
        if (info := await client.inspect("job")) and info.waiters:
            return
        await asyncio.sleep(0.001)
    pytest.fail("nobody waits")
