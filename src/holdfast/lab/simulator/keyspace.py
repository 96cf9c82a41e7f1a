"""The data of a Redis server, as far as the scripts use it: texts, sorted sets, and their expiry.

Times are whole milliseconds, as on a server. A key is there up to and including the millisecond in
which it ends, so it lasts at least as long as it was told to.
"""

from collections.abc import Callable
from typing import TypeAlias

Publish: TypeAlias = Callable[[bytes, bytes], int]
"""Say a message on a channel; gives how many hear it."""

Set: TypeAlias = dict[bytes, int]
Value: TypeAlias = bytes | Set


class WrongTypeError(Exception):
    """A text is not a set, and a set is not a text."""

    def __init__(self) -> None:
        super().__init__("WRONGTYPE Operation against a key holding the wrong kind of value")


class Keyspace:
    """All keys of one server. The methods are named after the commands of Redis."""

    def __init__(self, clock: Callable[[], float], publish: Publish) -> None:
        self._clock = clock
        self.publish = publish
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

    def set(self, key: bytes, value: bytes, px: int) -> None:
        """Put a text there, for that long."""
        if px <= 0:
            raise ValueError("invalid expire time in 'set' command")
        self._values[key] = value
        self.pexpire(key, px)

    def set_nx(self, key: bytes, value: bytes, px: int | None = None) -> bool:
        """Put a text there unless something is; whether it was put."""
        if self._find(key) is not None:
            return False
        self._values[key] = value
        if px is not None:
            self.pexpire(key, px)
        return True

    def set_keep_ttl(self, key: bytes, value: bytes) -> None:
        """Put a text there; it ends when what was there would have ended."""
        self._find(key)
        self._values[key] = value

    def incr(self, key: bytes) -> int:
        """One more than it was; a key that is not there was 0."""
        number = int(self.get(key) or 0) + 1
        self._values[key] = b"%d" % number
        return number

    def delete(self, key: bytes) -> None:
        """Be rid of a key."""
        self._values.pop(key, None)
        self._ends.pop(key, None)

    def pttl(self, key: bytes) -> int:
        """How long a key will be there; -1: for ever; -2: it is not there."""
        if self._find(key) is None:
            return -2
        ends = self._ends.get(key)
        return -1 if ends is None else ends - self._now()

    def pexpire(self, key: bytes, px: int) -> None:
        """Let a key that is there end then."""
        if px <= 0:
            self.delete(key)
        elif self._find(key) is not None:
            self._ends[key] = self._now() + px

    def zadd_nx(self, key: bytes, score: int, member: bytes) -> None:
        """Add a member to a set, unless it is there."""
        self._set(key, make=True).setdefault(member, score)

    def zrem(self, key: bytes, member: bytes) -> None:
        """Remove a member."""
        members = self._set(key)
        members.pop(member, None)
        self._drop_if_empty(key, members)

    def zpopmin(self, key: bytes) -> bytes | None:
        """Take the first member out."""
        members = self._set(key)
        if not members:
            return None
        first = self.zrange(key)[0]
        del members[first]
        self._drop_if_empty(key, members)
        return first

    def zrange(self, key: bytes) -> list[bytes]:
        """All members, in order."""
        members = self._set(key)
        return sorted(members, key=lambda member: (members[member], member))

    def _now(self) -> int:
        return int(self._clock() * 1000)

    def _find(self, key: bytes) -> Value | None:
        ends = self._ends.get(key)
        if ends is not None and self._clock() * 1000 >= ends + 1:
            self.delete(key)
        return self._values.get(key)

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
            self.delete(key)
