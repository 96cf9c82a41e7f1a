"""The data of a Redis server, as far as the scripts use it: texts, sorted sets, and their expiry.

Times are whole milliseconds, as on a server. A key is there up to and including the millisecond in
which it ends, so it lasts at least as long as it was told to.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

Set: TypeAlias = dict[bytes, float]
Value: TypeAlias = bytes | Set


class Status(NamedTuple):
    """A reply that is no value, but says how it went."""

    text: bytes


OK = Status(b"OK")


class Channels(Protocol):
    """Who listens to what is said on a server."""

    def publish(self, channel: bytes, message: bytes) -> int:
        """Say a message on a channel; gives how many hear it."""
        ...

    def listeners(self, channel: bytes) -> int:
        """How many would hear it."""
        ...


class WrongTypeError(Exception):
    """A text is not a set, and a set is not a text."""

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
        """Every key that is there."""
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
        """Whether a key is there."""
        return self._find(key) is not None

    def set(self, key: bytes, value: bytes, px: int | None = None) -> None:
        """Put a text there, for that long, or for ever."""
        if px is not None and px <= 0:
            raise ValueError("invalid expire time in 'set' command")
        self._values[key] = value
        self._ends.pop(key, None)
        if px is not None:
            self._ends[key] = self._now() + px

    def set_nx(self, key: bytes, value: bytes, px: int | None = None) -> bool:
        """Put a text there unless something is; whether it was put."""
        free = not self.exists(key)
        if free:
            self.set(key, value, px)
        return free

    def set_keep_ttl(self, key: bytes, value: bytes) -> None:
        """Put a text there; it ends when what was there would have ended."""
        self._find(key)
        self._values[key] = value

    def delete(self, key: bytes) -> bool:
        """Be rid of a key; whether it was there."""
        there = self._find(key) is not None
        self._drop(key)
        return there

    def pttl(self, key: bytes) -> int:
        """How long a key will be there; -1: for ever; -2: it is not there."""
        if self._find(key) is None:
            return -2
        ends = self._ends.get(key)
        return -1 if ends is None else ends - self._now()

    def pexpire(self, key: bytes, px: int) -> int:
        """Let a key end then; how many are there that do: 1 or 0."""
        if self._find(key) is None:
            return 0
        if px <= 0:
            self._drop(key)
        else:
            self._ends[key] = self._now() + px
        return 1

    def zadd_nx(self, key: bytes, score: float, member: bytes) -> int:
        """Add a member to a set, unless it is there; how many were added."""
        members = self._set(key, make=True)
        before = len(members)
        members.setdefault(member, score)
        return len(members) - before

    def zrem(self, key: bytes, *gone: bytes) -> int:
        """Remove members; how many were there."""
        members = self._set(key)
        removed = sum(members.pop(member, None) is not None for member in gone)
        self._drop_if_empty(key, members)
        return removed

    def zpopmin(self, key: bytes) -> tuple[bytes, float] | None:
        """Take the first member out, with its score."""
        members = self._set(key)
        if not members:
            return None
        first = self.zrange(key)[0]
        score = members.pop(first)
        self._drop_if_empty(key, members)
        return first, score

    def zscore(self, key: bytes, member: bytes) -> float | None:
        """The score of a member, if it is there."""
        return self._set(key).get(member)

    def zrange(self, key: bytes) -> list[bytes]:
        """All members, in order."""
        members = self._set(key)
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

    def _set(self, key: bytes, *, make: bool = False) -> Set:
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
