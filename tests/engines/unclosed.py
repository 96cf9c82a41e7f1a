"""A program that takes locks, waits for one, and ends without a word: `... URL sync|async`."""

import asyncio
import os
import sys

import holdfast

TTL = 60.0

NAME, ANOTHER = f"unclosed by {os.getpid()}", f"another of {os.getpid()}"
"""Of no other run, whose leases may last on."""


def take(url: str) -> None:
    client, other = holdfast.Client(url, ttl=TTL), holdfast.Client(url, ttl=TTL)
    leases = [client.lock(NAME).acquire(), client.lock(ANOTHER, ttl=TTL / 2).acquire()]
    waited = other.lock(NAME).acquire(timeout=0.1)
    print(all(leases) and waited is None, flush=True)
    end(client, other, leases)


async def take_async(url: str) -> None:
    client, other = holdfast.AsyncClient(url, ttl=TTL), holdfast.AsyncClient(url, ttl=TTL)
    leases = [
        await client.lock(NAME).acquire(),
        await client.lock(ANOTHER, ttl=TTL / 2).acquire(),
    ]
    waited = await other.lock(NAME).acquire(timeout=0.1)
    print(all(leases) and waited is None, flush=True)
    end(client, other, leases)


def end(*things: object) -> None:
    """The program ends; these are dropped by the interpreter only when it has ended its threads."""
    sys.modules[__name__].things = things  # type: ignore[attr-defined]
    raise SystemExit


if __name__ == "__main__":
    if sys.argv[2] == "sync":
        take(sys.argv[1])
    else:
        asyncio.run(take_async(sys.argv[1]))
