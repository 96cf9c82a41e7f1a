"""The data of a virtual Redis server, and the commands on it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

Set: TypeAlias = dict[bytes, float]
Value: TypeAlias = bytes | Set


class Status(NamedTuple):
    """A status reply, not a value."""

    text: bytes


OK = Status(b"OK")


class CommandError(Exception):
    """A command that this server does not know, or wrong arguments."""


WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"


class Keyspace:
    """All keys of one server. Methods with the name of a command take its words."""

    def __init__(self, clock: Callable[[], float], server: Any) -> None:
        """The server has the subscribers: it can `publish`, and count its `listeners`."""
        self._clock, self.publish, self.listeners = clock, server.publish, server.listeners
        self._values: dict[bytes, Value] = {}
        self._ends: dict[bytes, int] = {}

    def now(self) -> int:
        """The server's clock, in microseconds."""
        return int(self._clock() * 1_000_000)

    def present(self) -> list[bytes]:
        return [key for key in list(self._values) if self._find(key) is not None]

    def ends_at(self, key: bytes) -> float:
        """When a key is gone, by the server's clock."""
        return (self._ends[key] + 1) / 1000

    def members(self, key: bytes) -> Set:
        """The members of a sorted set, with their scores."""
        value = self._find(key)
        if isinstance(value, bytes):
            raise CommandError(WRONG_TYPE)
        return {} if value is None else value

    def get(self, key: bytes) -> bytes | None:
        """The text under a key."""
        value = self._find(key)
        if isinstance(value, dict):
            raise CommandError(WRONG_TYPE)
        return value

    def set(self, key: bytes, value: bytes, *options: bytes) -> Status | None:
        """Store a text: forever, or for PX milliseconds, or with the expiry that the key has."""
        before, ends = self._find(key), None
        match [option.upper() for option in options if option.upper() != b"NX"]:
            case []:
                pass
            case [b"KEEPTTL"]:
                ends = self._ends.get(key)
            case [b"PX", px] if int(px) > 0:
                ends = self._millis() + int(px)
            case _:
                raise CommandError(f"SET with {options!r}")
        if before is not None and b"NX" in map(bytes.upper, options):
            return None
        self._drop(key)
        self._values[key] = value
        if ends is not None:
            self._ends[key] = ends
        return OK

    def delete(self, *keys: bytes) -> int:
        """Delete keys; how many were there."""
        found = self.exists(*keys)
        for key in keys:
            self._drop(key)
        return found

    def exists(self, *keys: bytes) -> int:
        """How many of the keys are there."""
        return sum(self._find(key) is not None for key in keys)

    def pttl(self, key: bytes) -> int:
        """Milliseconds until a key expires; -1: never; -2: there is no such key."""
        if self._find(key) is None:
            return -2
        ends = self._ends.get(key)
        return -1 if ends is None else ends - self._millis()

    def pexpire(self, key: bytes, px: bytes) -> int:
        """Set the expiry of a key; 1, or 0 if there is no such key."""
        left, found = int(px), self.exists(key)
        if left <= 0:
            self._drop(key)
        elif found:
            self._ends[key] = self._millis() + left
        return found

    def time(self) -> list[bytes]:
        """The server's clock, in seconds and microseconds."""
        return [b"%d" % part for part in divmod(self.now(), 1_000_000)]

    def zadd(self, key: bytes, *words: bytes) -> int:
        """Add a member to a set, or, without NX, change its score; how many were added."""
        *options, score, member = words
        if [option.upper() for option in options] not in ([], [b"NX"]):
            raise CommandError(f"ZADD with {options!r}")
        members = self.members(key)
        is_new = member not in members
        if is_new or not options:
            members[member] = float(score)
            self._values[key] = members
        return int(is_new)

    def zrem(self, key: bytes, *gone: bytes) -> int:
        """Remove members; how many were there."""
        members = self.members(key)
        removed = sum(members.pop(member, None) is not None for member in gone)
        if not members:
            self._drop(key)
        return removed

    def zrange(self, key: bytes, first: bytes = b"0", last: bytes = b"-1") -> list[bytes]:
        """The members from one place to another, in order; negative ones count from the end."""
        members = self.members(key)
        start, stop = (int(end) + (len(members) if int(end) < 0 else 0) for end in (first, last))
        order = sorted(members, key=lambda member: (members[member], member))
        return order[max(start, 0) : max(stop + 1, 0)]

    def zscore(self, key: bytes, member: bytes) -> bytes | None:
        score = self.members(key).get(member)
        return None if score is None else b"%.17g" % score

    def pubsub(self, numsub: bytes, channel: bytes) -> list[Any]:
        """How many subscribers a channel has."""
        if numsub.upper() != b"NUMSUB":
            raise CommandError(f"PUBSUB {numsub!r}")
        return [channel, self.listeners(channel)]

    def _millis(self) -> int:
        return int(self._clock() * 1000)

    def _find(self, key: bytes) -> Value | None:
        ends = self._ends.get(key)
        if ends is not None and self._clock() * 1000 >= ends + 1:
            self._drop(key)
        return self._values.get(key)

    def _drop(self, key: bytes) -> None:
        self._values.pop(key, None)
        self._ends.pop(key, None)


COMMANDS: dict[bytes, Callable[..., Any]] = {
    b"DEL": Keyspace.delete,
    b"PUBLISH": lambda db, channel, message: db.publish(channel, message),
    **{
        name.encode(): getattr(Keyspace, name.lower())
        for name in (
            *("EXISTS", "GET", "PEXPIRE", "PTTL", "PUBSUB", "SET", "TIME"),
            *("ZADD", "ZRANGE", "ZREM", "ZSCORE"),
        )
    },
}


def perform(db: Keyspace, words: Sequence[bytes]) -> Any:
    """Execute a command. None is a reply, too."""
    command = COMMANDS.get(words[0].upper())
    if command is None:
        raise CommandError(f"unknown command {words[0]!r}")
    try:
        return command(db, *words[1:])
    except (TypeError, ValueError) as error:
        raise CommandError(f"{words!r}: {error}") from error
