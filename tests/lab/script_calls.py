"""Calls of the scripts at random, mostly such as make sense."""

from random import Random
from typing import Protocol

from holdfast.engines.redis.keys import keys_of
from holdfast.lab.simulator.redis.keyspace import Keyspace

TTLS, KEEP, OFFER = (100_000, 200_000, 400_000), 3_000_000, 50_000
"""In milliseconds, and so far apart that none is mistaken for another."""
HOUR = 3_600_000_000

CHANNELS = {"a": "c1", "b": "c1", "c": "c2", "d": "c2", "e": "unheard"}
LOCKS = [tuple(key.decode() for key in keys_of(name)) for name in ("job", "work")]
"""The keys of each: the lock, its counter, its queue."""


class Ground(Protocol):
    """Where they are called."""

    @property
    def virtual(self) -> Keyspace:
        """The data of a virtual server."""
        ...

    @property
    def now(self) -> int:
        """Its clock, in microseconds."""
        ...


def counter_of(ground: Ground, fence: str) -> int:
    return int(ground.virtual.get(fence.encode()) or ground.now)


def single(random: Random, ground: Ground) -> tuple[str, list[str], list[str | int]]:
    """A script call for a single server."""
    holder, ttl, lock = random.choice("abcde"), random.choice(TTLS), random.choice(LOCKS)
    channel = CHANNELS[holder]
    match random.randrange(8):
        case 0 | 1 | 2 | 3:
            channel = random.choice([channel, channel, ""])
            return "acquire", [*lock], [ttl, KEEP, OFFER, channel, holder]
        case 4 | 5 | 6:
            who = random.choice([holder, *holders(ground, lock), ""])
            return "release", [*lock], [KEEP, OFFER, CHANNELS.get(who, ""), who]
        case _:
            return extension(random, ground)


def quorum(random: Random, ground: Ground) -> tuple[str, list[str], list[str | int]]:
    """A script call for a node of a quorum."""
    holder, ttl, lock = random.choice("abcde"), random.choice(TTLS), random.choice(LOCKS)
    channel = CHANNELS[holder]
    fence = counter_of(ground, lock[1]) + random.choice([-1, 0, 0, 1])
    owner = random.choice([holder, *holders(ground, lock) * 2])
    tries = random.choice(["", "", "", "#1", "#2"])
    match random.randrange(9):
        case 0 | 1 | 2:
            proposed = random.choice([0, fence, *(ground.now + away for away in (-HOUR, 0, HOUR))])
            if random.randrange(3) == 0:
                return "vote", [*lock[:2]], [ttl, KEEP, proposed, holder + tries]
            return "vote", [*lock], [ttl, KEEP, channel, proposed, holder + tries]
        case 3 | 4:
            who = random.choice([owner, owner, owner[:1] + (tries or "#0"), ""])
            later: str | int = OFFER if random.randrange(2) else ""
            goes_on = "#" in who and random.randrange(2) == 0
            channel = "" if goes_on else CHANNELS.get(who[:1], "")
            return "unvote", [lock[0], lock[2]], [f"{later} {channel}", who]
        case 5:
            return "raise", [*lock[:2]], [fence, KEEP, owner]
        case 6 | 7:
            return "repair", [*lock[:2]], [ttl, KEEP, fence, 1, owner]
        case _:
            return extension(random, ground)


def holders(ground: Ground, lock: tuple[str, ...]) -> list[str]:
    owner = ground.virtual.get(lock[0].encode())
    return [owner.decode()] if owner else []


def extension(random: Random, ground: Ground) -> tuple[str, list[str], list[str | int]]:
    """Both locks at once, mostly by their holders."""
    argv: list[str | int] = [KEEP]
    for lock in LOCKS:
        owner = random.choice([random.choice("abcde"), *holders(ground, lock) * 3])
        argv += [random.choice(TTLS), owner]
    return "extend", [key for lock in LOCKS for key in lock[:2]], argv
