"""Contenders on etcd: the calls that holdfast makes, through the same library; and aetcd's lock."""

from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from os import getpid
from secrets import randbits
from typing import Any

import grpc
import grpc.aio

from benchmarks.contenders import TTL, AsyncPair, Pair, library
from holdfast.drivers.common import new_holder
from holdfast.engines.etcd.commands import (
    Call,
    delete,
    grant,
    place_of,
    queue_of,
    take,
)
from holdfast.engines.etcd.connection import HAS_LEADER, SETTINGS, Connection
from holdfast.lab.servers.process import HOST

WITHIN = 5.0
LONG = 3600
"""Seconds: longer than any case takes."""


def new_lease() -> int:
    """An id for an etcd lease."""
    return randbits(62) + 1


def raw(address: str, stack: ExitStack) -> Pair:
    """A transaction and a deletion, with an etcd lease that is there, as a session's is."""
    channel = stack.enter_context(grpc.insecure_channel(address, options=SETTINGS))
    connection, lease = Connection("raw", channel), new_lease()
    key = f"floor:{getpid()}"
    queue, place = queue_of(key), place_of(key, "")

    def send(call: Call) -> Any:
        return connection[call.method](call.request, timeout=WITHIN, metadata=(HAS_LEADER,))

    def acquire_and_release() -> None:
        assert send(take(queue, place, lease, new_holder())).succeeded
        send(delete(place))

    send(grant(lease, LONG))
    return acquire_and_release


async def async_raw(address: str, stack: AsyncExitStack) -> Sequence[AsyncPair]:
    """The same for a task."""
    channel = await stack.enter_async_context(grpc.aio.insecure_channel(address, options=SETTINGS))
    connection, lease = Connection("raw", channel), new_lease()
    key = f"floor:{getpid()}"
    queue, place = queue_of(key), place_of(key, "")

    def send(call: Call) -> Any:
        return connection[call.method](call.request, timeout=WITHIN, metadata=(HAS_LEADER,))

    async def acquire_and_release() -> None:
        assert (await send(take(queue, place, lease, new_holder()))).succeeded
        await send(delete(place))

    await send(grant(lease, LONG))
    return [acquire_and_release]


async def aetcd(port: int, tidy: bool, stack: AsyncExitStack) -> Sequence[AsyncPair]:
    """As it is, or `tidy`: with its etcd lease revoked, which it leaves behind."""
    client = await stack.enter_async_context(library("aetcd").Client(HOST, port))
    lock = client.lock(b"bench:tidy" if tidy else b"bench", ttl=TTL)

    async def acquire_and_release() -> None:
        assert await lock.acquire()
        assert await lock.release()

    async def with_its_lease() -> None:
        await acquire_and_release()
        await lock.lease.revoke()

    return [with_its_lease if tidy else acquire_and_release]
