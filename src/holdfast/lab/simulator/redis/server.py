"""A virtual Redis server: executes the commands that the engine sends, and returns raw replies."""

from collections.abc import Iterator, Sequence
from functools import cache, partial
from hashlib import sha1
from typing import Any

import hiredis

from holdfast.core.attempt import holder_of
from holdfast.core.lease_state import LeaseState
from holdfast.engines.redis.keys import keys_of, shares_of
from holdfast.lab.simulator.network import Connection
from holdfast.lab.simulator.redis.keyspace import (
    CommandError,
    Keyspace,
    Status,
    WrongTypeError,
    perform,
)
from holdfast.lab.simulator.redis.lua import ScriptError, scripts
from holdfast.lab.simulator.server import PRECISION, BaseServer, Receive


class Server(BaseServer):
    """A Redis server, with or without its data after a restart."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._clear()

    def _clear(self) -> None:
        self.data = Keyspace(self.clock, self)
        self._loaded: dict[bytes, bytes] = {}
        self._subscribers: dict[bytes, dict[Connection, Receive]] = {}

    def restart(self, *, loses_data: bool) -> None:
        """Come up again, with or without what was there."""
        super().restart(loses_data=loses_data)
        kept = self.data
        self._clear()
        if not loses_data:
            self.data = kept

    def answer(self, connection: Connection, data: bytes, reply: Receive) -> None:
        """Execute commands, and send the replies back."""
        replies = b""
        for words in _parsed(data):
            match words:
                case [b"HELLO", b"3"]:
                    replies += b"%1\r\n$5\r\nproto\r\n:3\r\n"
                case [b"SUBSCRIBE", channel]:
                    self._subscribers.setdefault(channel, {})[connection] = reply
                    replies += encode([b"subscribe", channel, 1], kind=b">")
                case _:
                    replies += encode(self._execute(words))
        connection.to_client(lambda: reply(replies))

    def execute(self, command: bytes) -> Any:
        """Execute one command, as bytes of the protocol; an error is returned, not raised."""
        [words] = _parsed(command)
        return self._execute(words)

    def _execute(self, words: Sequence[bytes]) -> Any:
        try:
            reply = self._perform(words)
        except (CommandError, ScriptError, WrongTypeError) as error:
            self._internal_error(f"{self.name} got an invalid command: {words!r}: {error}")
            return Exception(f"ERR {error}")
        return reply.text if isinstance(reply, Status) else reply

    def _perform(self, words: Sequence[bytes]) -> Any:
        match words:
            case [b"EVALSHA", sha, count, *rest]:
                source = self._loaded.get(sha)
                if source is None:
                    return Exception("NOSCRIPT No matching script. Please use EVAL.")
                return scripts().run(source, int(count), rest, partial(perform, self.data))
            case [b"SCRIPT", b"LOAD", source]:
                sha = _sha(source)
                self._loaded[sha] = source
                return sha
            case [b"INFO", b"server"]:
                uptime = int(self.timeline.now - self.started_at)
                run = f"{self.name}/{self.run}".encode()
                return b"run_id:%b\r\nuptime_in_seconds:%d" % (run, uptime)
            case [b"CONFIG", b"GET", b"*append*"]:
                always, yes = (b"always", b"yes") if self.durable else (b"everysec", b"no")
                settings = (b"appendonly", yes, b"appendfsync", always)
                return [*settings, b"no-appendfsync-on-rewrite", b"no"]
            case _:
                return perform(self.data, words)

    def publish(self, channel: bytes, message: bytes) -> int:
        """Send a message to all subscribers of a channel; returns their number."""
        living = self._living(channel)
        push = encode([b"message", channel, message], kind=b">")
        for connection, reply in living:
            connection.to_client(lambda reply=reply: reply(push))  # type: ignore[misc]
        return len(living)

    def listeners(self, channel: bytes) -> int:
        """The number of subscribers of a channel."""
        return len(self._living(channel))

    def holds(self, key: str, holder: str) -> bool:
        """Whether this holder has the lock, or a share of it."""
        return self._ends_at(key, holder) is not None

    def _ends_at(self, key: str, holder: str) -> float | None:
        """When its lease ends, by the server's clock; None if it has none."""
        lock = keys_of(key).lock
        owner = self.data.get(lock) or b""
        if owner == holder.encode():
            return self.data.ends_at(lock)
        if shares_of(owner.decode()) is None:
            return None
        ends = self.data.members(b"{%b}:members" % lock).get(holder.encode())
        return None if ends is None or ends <= self.data.time() // 1000 else (ends + 1) / 1000

    def knows(self, lease: LeaseState) -> bool:
        """Whether it has the lease, with its fence. Another reader may have raised it."""
        fence = int(self.data.get(keys_of(lease.spec.key).fence) or 0)
        known = fence >= lease.fence if lease.spec.shares == 0 else fence == lease.fence
        return self.holds(lease.spec.key, lease.holder) and known

    def backs(self, lease: LeaseState, until: float) -> bool:
        """Whether it keeps the lease until that instant, unless it is released."""
        ends_at = self._ends_at(lease.spec.key, lease.holder)
        return ends_at is not None and self.clock.true(ends_at) >= until - PRECISION

    def has_turn(self, key: str, holder: str) -> bool:
        """Whether a holder has the lock or a share of it, or gets it when it asks again."""
        return self.holds(key, holder)

    def remains(self, key: str, holder: str) -> list[str]:
        """What it has of a holder that has released the lock."""
        keys, mine = keys_of(key), holder.encode()
        held = holder_of((self.data.get(keys.lock) or b"").decode()) == holder
        held = held or self._ends_at(key, holder) is not None
        queued = any(member.endswith(b" " + mine) for member in self.data.zrange(keys.queue))
        return [holder] * held + ["a place in the queue"] * queued

    def leftovers(self) -> list[str]:
        """What must not be there when every lock was released."""
        locks = [key for key in self.data.present() if not key.startswith(b"{")]
        return [(self.data.get(key) or b"").decode() for key in locks]

    def _living(self, channel: bytes) -> list[tuple[Connection, Receive]]:
        subscribers = self._subscribers.get(channel, {})
        return [(each, receive) for each, receive in subscribers.items() if not each.broken]


def encode(reply: Any, kind: bytes = b"*") -> bytes:
    """A reply, or a push, as bytes of RESP3."""
    if reply is None:
        return b"_\r\n"
    if isinstance(reply, Exception):
        return b"-%b\r\n" % str(reply).encode()
    if isinstance(reply, int):
        return b":%d\r\n" % reply
    if isinstance(reply, (list, tuple)):
        return b"%b%d\r\n%b" % (kind, len(reply), b"".join(map(encode, reply)))
    raw = reply.encode() if isinstance(reply, str) else reply
    return b"$%d\r\n%b\r\n" % (len(raw), raw)


def _parsed(data: bytes) -> Iterator[list[bytes]]:
    reader = hiredis.Reader()
    reader.feed(data)
    while (words := reader.gets()) is not False:
        yield words


@cache
def _sha(source: bytes) -> bytes:
    """The name under which a server keeps a script."""
    return sha1(source, usedforsecurity=False).hexdigest().encode()
