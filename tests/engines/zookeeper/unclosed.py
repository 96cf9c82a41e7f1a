"""A program that takes a lock and ends without a word: `python -m ... URL sync|async`."""

import asyncio
import sys

import holdfast

TTL = 60.0


def take(url: str) -> None:
    lease = holdfast.Client(url).lock("unclosed", ttl=TTL).acquire()
    print(lease is not None, flush=True)
    raise SystemExit


async def take_async(url: str) -> None:
    lease = await holdfast.AsyncClient(url).lock("unclosed", ttl=TTL).acquire()
    print(lease is not None, flush=True)
    raise SystemExit


if __name__ == "__main__":
    if sys.argv[2] == "sync":
        take(sys.argv[1])
    else:
        asyncio.run(take_async(sys.argv[1]))
