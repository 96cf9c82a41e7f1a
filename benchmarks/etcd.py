"""Contenders on etcd: the raw calls through the library that holdfast uses, and aetcd's lock."""

from collections.abc import Callable, Generator, Sequence
from contextlib import AsyncExitStack, ExitStack
from os import getpid
from secrets import randbits
from typing import Any, TypeAlias

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
    revoke,
    take,
)
from holdfast.engines.etcd.connection import HAS_LEADER, SETTINGS, Connection
from holdfast.lab.servers.process import HOST

WITHIN = 5.0
LONG = 3600
"""Seconds: longer than anybody measures."""


def new_lease() -> int:
    """An id for an etcd lease."""
    return randbits(62) + 1


Calls: TypeAlias = Generator[Call, Any, None]
Begin: TypeAlias = Callable[[str, int], Calls]
"""Given the name of a lock, and a lease that is there."""


def three_calls(key: str, _: int) -> Calls:
    """With a lease of its own, which is granted and revoked."""
    lease = new_lease()
    yield grant(lease, TTL)
    yield take(queue_of(key), place_of(key, ""), lease, new_holder())
    yield revoke(lease)


def two_calls(key: str, lease: int) -> Calls:
    """With a lease that is there."""
    place = place_of(key, "")
    yield take(queue_of(key), place, lease, new_holder())
    yield delete(place)


def raw(address: str, begin: Begin, stack: ExitStack) -> Pair:
    channel = stack.enter_context(grpc.insecure_channel(address, options=SETTINGS))
    connection, lease, key = Connection("raw", channel), new_lease(), f"floor:{getpid()}"

    def say(call: Call) -> Any:
        return connection[call.method](call.request, timeout=WITHIN, metadata=(HAS_LEADER,))

    def acquire_and_release() -> None:
        calls = begin(key, lease)
        call: Call | None = next(calls)
        while call is not None:
            call = _next(calls, say(call))

    say(grant(lease, LONG))
    return acquire_and_release


async def async_raw(address: str, begin: Begin, stack: AsyncExitStack) -> Sequence[AsyncPair]:
    channel = await stack.enter_async_context(grpc.aio.insecure_channel(address, options=SETTINGS))
    connection, lease, key = Connection("raw", channel), new_lease(), f"floor:{getpid()}"

    def say(call: Call) -> Any:
        return connection[call.method](call.request, timeout=WITHIN, metadata=(HAS_LEADER,))

    async def acquire_and_release() -> None:
        calls = begin(key, lease)
        call: Call | None = next(calls)
        while call is not None:
            call = _next(calls, await say(call))

    await say(grant(lease, LONG))
    return [acquire_and_release]


def _next(calls: Calls, reply: Any) -> Call | None:
    try:
        return calls.send(reply)
    except StopIteration:
        return None


async def aetcd(port: int, tidy: bool, stack: AsyncExitStack) -> Sequence[AsyncPair]:
    """As it is, or with what it forgets: to revoke its lease."""
    client = await stack.enter_async_context(library("aetcd").Client(HOST, port))
    lock = client.lock(b"bench:tidy" if tidy else b"bench", ttl=TTL)

    async def acquire_and_release() -> None:
        assert await lock.acquire()
        assert await lock.release()

    async def with_its_lease() -> None:
        await acquire_and_release()
        await lock.lease.revoke()

    return [with_its_lease if tidy else acquire_and_release]
