"""A program that takes locks, waits for one, and ends without a word: `... URL sync|async`."""

import asyncio
import sys

import holdfast

TTL = 60.0


def take(url: str) -> None:
    client, other = holdfast.Client(url, ttl=TTL), holdfast.Client(url, ttl=TTL)
    leases = [client.lock("unclosed").acquire(), client.lock("another", ttl=TTL / 2).acquire()]
    waited = other.lock("unclosed").acquire(timeout=0.1)
    print(all(leases) and waited is None, flush=True)
    end(client, other, leases)


async def take_async(url: str) -> None:
    client, other = holdfast.AsyncClient(url, ttl=TTL), holdfast.AsyncClient(url, ttl=TTL)
    leases = [
        await client.lock("unclosed").acquire(),
        await client.lock("another", ttl=TTL / 2).acquire(),
    ]
    waited = await other.lock("unclosed").acquire(timeout=0.1)
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
