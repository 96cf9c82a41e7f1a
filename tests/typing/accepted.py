# pyright: strict
"""What type checkers accept, and the types they see. Checked by `make lint`, never run."""

import asyncio
from typing import Any, assert_type

import redis
import redis.asyncio
import sqlalchemy
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from sqlalchemy.ext.asyncio import AsyncEngine

import holdfast
from holdfast import (
    AsyncCell,
    AsyncClient,
    AsyncLease,
    AsyncLeaseAll,
    AsyncLock,
    Cell,
    Client,
    Guarantees,
    Leader,
    Lease,
    LeaseAll,
    LeaseInfo,
    Lock,
    Versioned,
)


class MyClient(Client): ...


class MyAsyncClient(AsyncClient): ...


def of_libraries(
    node: redis.Redis,
    cluster: redis.RedisCluster,
    engine: sqlalchemy.Engine,
    pool: ConnectionPool[Any],
) -> None:
    Client()
    Client("redis://h", prefix="", ttl=10, retry=0.5, max_ttl=60)
    Client("postgresql://h/db", connect=lambda: {"password": "x"})
    Client(node)
    Client([node, node, node])
    Client(cluster)
    Client(engine)
    Client(pool)
    assert_type(MyClient.from_sqlalchemy(engine), MyClient)


def of_async_libraries(
    node: "redis.asyncio.Redis",
    cluster: "redis.asyncio.RedisCluster",
    engine: AsyncEngine,
    pool: AsyncConnectionPool[Any],
) -> None:
    AsyncClient(node)
    AsyncClient((node, node, node))
    AsyncClient(cluster)
    AsyncClient(engine)
    AsyncClient(pool)
    assert_type(MyAsyncClient.from_sqlalchemy(engine), MyAsyncClient)


def threads(client: Client) -> None:
    with MyClient("memory://") as mine:
        assert_type(mine, MyClient)
    assert_type(client.guarantees, Guarantees)
    lock = client.lock("job", ttl=10, timeout=None)
    assert_type(lock, Lock)
    with lock as lease:
        assert_type(lease, Lease)
        assert_type(lease.fence, int)
        lease.on_lost(lambda lost: assert_type(lost, Lease))
    assert_type(lock.acquire(), Lease | None)
    assert_type(client.inspect("job"), LeaseInfo | None)
    assert_type(list(client.leases()), list[LeaseInfo])

    @lock
    def work(x: int) -> str:
        return str(x)

    assert_type(work(1), str)

    @lock.with_lease
    def fenced(lease: Lease, x: int) -> int:
        return lease.fence + x

    assert_type(fenced(1), int)

    @client.once("report", every=3600)
    def report(x: int) -> str:
        return str(x)

    assert_type(report(1), str | None)
    with client.lock("job").or_skip as found:
        assert_type(found, Lease | None)
    with client.lock_all(["a", "b"]) as leases:
        assert_type(leases, LeaseAll)
        assert_type(leases.fences, dict[str, int])
    assert_type(client.lock_all({"a"}).acquire(), LeaseAll | None)
    election = client.election("boss", value="me")
    assert_type(election.campaign(), Lease)
    assert_type(election.leader(), Leader | None)
    assert_type(list(election.observe()), list[Leader | None])
    assert_type(election.run(lambda lease: lease.fence), int)
    assert_type(client.latch("ready", 3).count_down(), int)
    assert_type(client.latch("ready", 3).wait(5), bool)


def cells(cell: Cell) -> None:
    def decrement(value: str | None) -> str:
        return str(int(value or 0) - 1)

    assert_type(cell.get(), Versioned)
    assert_type(cell.update(decrement), str)
    assert_type(cell.update(lambda value: f"{value}!"), str)
    assert_type(cell.update(lambda value: b"!"), bytes)


async def tasks(client: AsyncClient, cell: AsyncCell) -> None:
    async with MyAsyncClient("memory://") as mine:
        assert_type(mine, MyAsyncClient)
    lock = client.lock("job", cancel_on_loss=True)
    assert_type(lock, AsyncLock)
    async with lock as lease:
        assert_type(lease, AsyncLease)
    assert_type(await lock.acquire(), AsyncLease | None)
    assert_type(await client.inspect("job"), LeaseInfo | None)
    assert_type([info async for info in client.leases()], list[LeaseInfo])

    @lock
    async def work(x: int) -> str:
        return str(x)

    task = asyncio.create_task(work(1))
    assert_type(task, asyncio.Task[str])
    assert_type(await work(1), str)
    assert_type(await cell.get(), Versioned)
    assert_type(await cell.update(lambda value: b"!"), bytes)

    @client.lock("job").or_skip
    async def skipping(x: int) -> str:
        return str(x)

    assert_type(await skipping(1), str | None)

    @client.once("report", every=3600).with_lease
    async def report(lease: AsyncLease, x: int) -> str:
        return f"{lease.fence} {x}"

    assert_type(await report(1), str | None)
    election = client.election("boss", value="me")
    assert_type(await election.campaign(), AsyncLease)
    assert_type([leader async for leader in election.observe()], list[Leader | None])
    assert_type(await election.run(lambda lease: work(lease.fence)), str)
    async with client.lock_all(["a", "b"], cancel_on_loss=True) as leases:
        assert_type(leases, AsyncLeaseAll)


async def fences(connection: object, lease: Lease) -> None:
    holdfast.fence.check(connection, lease.name, lease.fence)
    await holdfast.fence.acheck(connection, lease.name, lease.fence)
    assert_type(holdfast.schema.ddl("sqlite:///f"), str)
