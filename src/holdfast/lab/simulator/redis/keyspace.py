"""The data of a virtual Redis server, and the commands on it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

Set: TypeAlias = dict[bytes, float]
Value: TypeAlias = bytes | Set


class Status(NamedTuple):
    """A status reply, not a value."""

    text: bytes


OK = Status(b"OK")


class Channels(Protocol):
    """The subscribers of a server."""

    def publish(self, channel: bytes, message: bytes) -> int:
        """Publish a message on a channel; returns the number of receivers."""
        ...

    def listeners(self, channel: bytes) -> int:
        """The number of subscribers."""
        ...


class WrongTypeError(Exception):
    """A command for another type of value."""

    def __init__(self) -> None:
        super().__init__("WRONGTYPE Operation against a key holding the wrong kind of value")


class Keyspace:
    """All keys of one server. The methods are named after the commands of Redis."""

    def __init__(self, clock: Callable[[], float], channels: Channels) -> None:
        self._clock = clock
        self.publish, self.listeners = channels.publish, channels.listeners
        self._values: dict[bytes, Value] = {}
        self._ends: dict[bytes, int] = {}

    def time(self) -> int:
        """The server's clock, in microseconds."""
        return int(self._clock() * 1_000_000)

    def present(self) -> list[bytes]:
        """Every key."""
        return [key for key in list(self._values) if self._find(key) is not None]

    def ends_at(self, key: bytes) -> float:
        """When a key is gone, by the server's clock."""
        return (self._ends[key] + 1) / 1000

    def get(self, key: bytes) -> bytes | None:
        """The text under a key."""
        value = self._find(key)
        if isinstance(value, dict):
            raise WrongTypeError
        return value

    def exists(self, key: bytes) -> bool:
        """Whether a key exists."""
        return self._find(key) is not None

    def set(self, key: bytes, value: bytes, px: int | None = None) -> None:
        """Store a text, for that long, or forever."""
        if px is not None and px <= 0:
            raise ValueError("invalid expire time in 'set' command")
        self._values[key] = value
        self._ends.pop(key, None)
        if px is not None:
            self._ends[key] = self._now() + px

    def set_keep_ttl(self, key: bytes, value: bytes) -> None:
        """Store a text and keep the expiry of the key."""
        self._find(key)
        self._values[key] = value

    def delete(self, key: bytes) -> bool:
        """Delete a key; whether it existed."""
        there = self._find(key) is not None
        self._drop(key)
        return there

    def pttl(self, key: bytes) -> int:
        """Milliseconds until a key expires; -1: never; -2: there is no such key."""
        if self._find(key) is None:
            return -2
        ends = self._ends.get(key)
        return -1 if ends is None else ends - self._now()

    def pexpire(self, key: bytes, px: int) -> int:
        """Set the expiry of a key; 1, or 0 if there is no such key."""
        if self._find(key) is None:
            return 0
        if px <= 0:
            self._drop(key)
        else:
            self._ends[key] = self._now() + px
        return 1

    def zadd_nx(self, key: bytes, score: float, member: bytes) -> int:
        """Add a member to a set, unless it is there; how many were added."""
        members = self.members(key, make=True)
        before = len(members)
        members.setdefault(member, score)
        return len(members) - before

    def zadd(self, key: bytes, score: float, member: bytes) -> int:
        """Add a member to a set, or change its score; how many were added."""
        added = self.zadd_nx(key, score, member)
        self.members(key)[member] = score
        return added

    def zrem(self, key: bytes, *gone: bytes) -> int:
        """Remove members; how many were there."""
        members = self.members(key)
        removed = sum(members.pop(member, None) is not None for member in gone)
        self._drop_if_empty(key, members)
        return removed

    def zrange(self, key: bytes) -> list[bytes]:
        """All members, in order."""
        members = self.members(key)
        return sorted(members, key=lambda member: (members[member], member))

    def _now(self) -> int:
        return int(self._clock() * 1000)

    def _find(self, key: bytes) -> Value | None:
        ends = self._ends.get(key)
        if ends is not None and self._clock() * 1000 >= ends + 1:
            self._drop(key)
        return self._values.get(key)

    def _drop(self, key: bytes) -> None:
        self._values.pop(key, None)
        self._ends.pop(key, None)

    def members(self, key: bytes, *, make: bool = False) -> Set:
        """The members of a sorted set, with their scores."""
        value = self._find(key)
        if isinstance(value, bytes):
            raise WrongTypeError
        if value is None:
            value = {}
            if make:
                self._values[key] = value
        return value

    def _drop_if_empty(self, key: bytes, members: Set) -> None:
        if not members:
            self._drop(key)


class CommandError(Exception):
    """A command that this server does not know, or wrong arguments."""


def perform(db: Keyspace, words: Sequence[bytes]) -> Any:
    """Execute a command. None is a reply, too."""
    command = COMMANDS.get(words[0].upper())
    if command is None:
        raise CommandError(f"unknown command {words[0]!r}")
    try:
        return command(db, *words[1:])
    except (TypeError, ValueError) as error:
        raise CommandError(f"{words!r}: {error}") from error


def _set(db: Keyspace, key: bytes, value: bytes, *options: bytes) -> Any:
    match [option.upper() for option in options]:
        case []:
            db.set(key, value)
        case [b"PX", px]:
            db.set(key, value, int(px))
        case [b"KEEPTTL"]:
            db.set_keep_ttl(key, value)
        case [b"NX", *_] | [*_, b"NX"] if db.exists(key):
            return None
        case [b"NX"]:
            db.set(key, value)
        case [b"NX", b"PX", px] | [b"PX", px, b"NX"]:
            db.set(key, value, int(px))
        case _:
            raise CommandError(f"SET with {options!r}")
    return OK


def _time(db: Keyspace) -> list[bytes]:
    seconds, micros = divmod(db.time(), 1_000_000)
    return [b"%d" % seconds, b"%d" % micros]


def _zadd(db: Keyspace, key: bytes, *words: bytes) -> int:
    match words:
        case [score, member]:
            return db.zadd(key, float(score), member)
        case [option, score, member] if option.upper() == b"NX":
            return db.zadd_nx(key, float(score), member)
        case _:
            raise CommandError(f"ZADD with {words!r}")


def _zrange(db: Keyspace, key: bytes, first: bytes, last: bytes) -> list[bytes]:
    members = db.zrange(key)
    start, stop = (int(end) + (len(members) if int(end) < 0 else 0) for end in (first, last))
    return members[max(start, 0) : max(stop + 1, 0)]


def _zscore(db: Keyspace, key: bytes, member: bytes) -> bytes | None:
    score = db.members(key).get(member)
    return None if score is None else b"%.17g" % score


def _zpopmin(db: Keyspace, key: bytes) -> list[bytes]:
    first = db.zrange(key)[:1]
    popped = [word for member in first for word in (member, b"%.17g" % db.members(key)[member])]
    db.zrem(key, *first)
    return popped


def _pubsub(db: Keyspace, what: bytes, *channels: bytes) -> list[Any]:
    if what.upper() != b"NUMSUB":
        raise CommandError(f"PUBSUB {what!r}")
    return [each for channel in channels for each in (channel, db.listeners(channel))]


COMMANDS: dict[bytes, Callable[..., Any]] = {
    b"GET": Keyspace.get,
    b"SET": _set,
    b"DEL": lambda db, *keys: sum(map(db.delete, keys)),
    b"EXISTS": lambda db, *keys: sum(map(db.exists, keys)),
    b"PTTL": Keyspace.pttl,
    b"PEXPIRE": lambda db, key, px: db.pexpire(key, int(px)),
    b"TIME": _time,
    b"ZADD": _zadd,
    b"ZCARD": lambda db, key: len(db.members(key)),
    b"ZREM": Keyspace.zrem,
    b"ZRANGE": _zrange,
    b"ZSCORE": _zscore,
    b"ZPOPMIN": _zpopmin,
    b"PUBLISH": lambda db, channel, message: db.publish(channel, message),
    b"PUBSUB": _pubsub,
}
