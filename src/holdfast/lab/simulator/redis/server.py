"""A virtual Redis server: executes the commands that the engine sends, and returns raw replies.

It runs the engine's own Lua scripts with Lua 5.1, as Redis has it. What a script sees is what Redis
shows it: `KEYS`, `ARGV`, `redis.call`, and nothing that it could keep between two calls. Values
cross over as they do on a server: nothing there is `false` in Lua, a number that goes out as a
reply loses its fraction, and a list ends before its first `nil`.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from hashlib import sha1
from importlib.resources import files
from typing import Any, TypeAlias

import hiredis

from holdfast.core.lease_state import LeaseState
from holdfast.engines.redis.keys import keys_of, shares_of
from holdfast.lab.simulator.network import Connection
from holdfast.lab.simulator.redis.keyspace import (
    CommandError,
    Keyspace,
    Status,
    perform,
)
from holdfast.lab.simulator.server import BaseServer, Place, Receive


class Server(BaseServer):
    """A Redis server, with or without its data after a restart."""

    ERRORS = (
        "BUSY Redis is busy running a script.",
        "LOADING Redis is loading the dataset in memory",
        "OOM command not allowed when used memory > 'maxmemory'.",
        "READONLY You can't write against a read only replica.",
    )

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._clear()

    def _clear(self) -> None:
        self.data = Keyspace(self.clock, self)
        self._loaded: dict[bytes, bytes] = {}
        self._subscribers: dict[bytes, dict[Connection, Receive]] = {}

    def restart(self, *, loses_data: bool) -> None:
        super().restart(loses_data=loses_data)
        kept = self.data
        self._clear()
        if not loses_data:
            self.data = kept

    def answer(self, connection: Connection, data: bytes, reply: Receive) -> None:
        replies = b""
        for words in _parsed(data):
            match words:
                case [b"HELLO", b"3"]:
                    replies += b"%1\r\n$5\r\nproto\r\n:3\r\n"
                case [b"SUBSCRIBE", channel]:
                    self._subscribers.setdefault(channel, {})[connection] = reply
                    replies += encode([b"subscribe", channel, 1], kind=b">")
                case _:
                    replies += encode(self._refuse(words) or self._execute(words))
        connection.to_client(lambda: reply(replies))

    def _refuse(self, words: Sequence[bytes]) -> Exception | None:
        """The error for a command; a server that is not busy answers questions about itself."""
        error = self.refusal()
        if error is None or (words[0] in (b"INFO", b"CONFIG") and not error.startswith("BUSY")):
            return None
        return Exception(error)

    def execute(self, command: bytes) -> Any:
        """Execute one command, as bytes of the protocol; an error is returned, not raised."""
        [words] = _parsed(command)
        return self._execute(words)

    def _execute(self, words: Sequence[bytes]) -> Any:
        try:
            reply = self._perform(words)
        except (CommandError, ScriptError) as error:
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
        living = self._living(channel)
        push = encode([b"message", channel, message], kind=b">")
        for connection, reply in living:
            connection.to_client(partial(reply, push))
        return len(living)

    def listeners(self, channel: bytes) -> int:
        return len(self._living(channel))

    def places(self, key: str) -> Iterator[Place]:
        """Those that have a lock, and those that wait for it. The fence is the lock's counter."""
        data, keys, true = self.data, keys_of(key), self.clock.true
        owner, fence = data.get(keys.lock) or b"", int(data.get(keys.fence) or 0)
        if shares_of(owner.decode()) is not None:
            for member, ends in data.members(b"{%b}:members" % keys.lock).items():
                if ends > data.now() // 1000:
                    yield Place(member.decode(), True, fence, true((ends + 1) / 1000))
        elif owner:
            yield Place(owner.decode(), True, fence, true(data.ends_at(keys.lock)))
        for waiter in data.zrange(keys.queue):
            yield Place(waiter.rpartition(b" ")[2].decode(), False)

    def leases_of(self, lease: LeaseState) -> list[Place]:
        """What it has of a lease. Before a raise, its counter is not yet the fence."""
        places = self.places(lease.spec.key)
        return [place for place in places if place.has_turn and place.holder == lease.holder]

    def knows(self, lease: LeaseState) -> bool:
        """Whether it has the lease, with its fence. Another reader may have raised it."""
        fences = [place.fence or 0 for place in self.leases_of(lease)]
        return any(f >= lease.fence if lease.spec.shares == 0 else f == lease.fence for f in fences)

    def leftovers(self) -> list[str]:
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


Perform: TypeAlias = Callable[[Sequence[bytes]], Any]
"""Carries out one command of a server, and gives its reply."""


class ScriptError(Exception):
    """A script failed; the text is Lua's own."""


class Scripts:
    """One Lua for all virtual servers of this process: a script is over before the next begins."""

    _perform: Perform
    """The commands of the server that runs one now."""

    def __init__(self) -> None:
        from lupa import lua51

        runtime: Any = lua51.LuaRuntime  # what type checkers know of it is out of date
        lua = runtime(encoding=None, register_eval=False, register_builtins=False)
        sandbox = lua.execute(_read("sandbox.lua"), self._call)
        self._table = lua.table_from
        self._compile, self._run = sandbox[b"compile"], sandbox[b"run"]
        self._error = lua51.LuaError
        self._compiled: dict[bytes, Any] = {}

    def run(self, source: bytes, keys: int, words: Sequence[bytes], perform: Perform) -> Any:
        """Run a script and return its reply. The first `keys` words are KEYS, the rest ARGV."""
        script = self._compiled.get(source)
        try:
            if script is None:
                script = self._compiled[source] = self._compile(source)
            self._perform = perform
            return _reply(self._run(script, keys, *words))
        except self._error as error:
            raise ScriptError(str(error)) from error

    def _call(self, *words: Any) -> Any:
        """`redis.call`, as a script sees it."""
        return self._value(self._perform([*map(_text, words)]))

    def _value(self, reply: Any) -> Any:
        """What a script is given for a reply."""
        if reply is None:
            return False
        if isinstance(reply, Status):
            return self._table({b"ok": reply.text})
        if isinstance(reply, list):
            return self._table(list(map(self._value, reply)))
        return reply


@cache
def scripts() -> Scripts:
    """Made when it is first wanted, and kept."""
    return Scripts()


def _text(word: Any) -> bytes:
    """An argument of `redis.call`, as bytes."""
    if type(word) is bytes:
        return word
    if type(word) is int or type(word) is float:
        return b"%.17g" % word
    raise ScriptError("Lua redis lib command arguments must be strings or integers")


def _reply(value: Any) -> Any:
    """The reply of a server for a script's result."""
    if value is None or value is False:
        return None
    if isinstance(value, bytes):
        return value
    if isinstance(value, int | float):
        return int(value)
    if (text := value[b"ok"]) is not None:
        return text
    replies: list[Any] = []
    while (each := value[len(replies) + 1]) is not None:
        replies.append(_reply(each))
    return replies


def _read(file: str) -> bytes:
    return files("holdfast.lab.simulator.redis").joinpath(file).read_bytes()
