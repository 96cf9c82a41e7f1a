"""A virtual Redis server: takes the very commands that the engine sends, and gives raw replies."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from hashlib import sha1
from typing import Any

from holdfast.lab.simulator.clock import EPOCH, Clock
from holdfast.lab.simulator.keyspace import CommandError, Keyspace, Status, WrongTypeError, perform
from holdfast.lab.simulator.lua import ScriptError, scripts
from holdfast.lab.simulator.network import Connection
from holdfast.lab.timeline import Timeline

LONG_AGO = -1000.0
"""When servers were started, if not in the run."""


Hear = Callable[[Any], None]


class Server:
    """One node: its data, behind connections. It can be frozen, crash, restart and forget."""

    def __init__(self, name: str, timeline: Timeline, *, durable: bool, defect: Hear) -> None:
        self.name = name
        self.timeline = timeline
        self.durable = durable
        self.clock = Clock(timeline, offset=EPOCH)
        self.up = True
        self.run = 1
        self.started_at = LONG_AGO
        self.forgot_at = LONG_AGO
        self.connections: dict[Connection, None] = {}
        self._frozen = 0
        self._defect = defect
        self._waiting: dict[Connection, list[Callable[[], None]]] = {}
        self._forget()

    def _forget(self) -> None:
        self.data = Keyspace(self.clock, self)
        self._loaded: dict[bytes, bytes] = {}
        self._subscribers: dict[bytes, dict[Connection, Hear]] = {}

    def accept(self, connection: Connection) -> bool:
        """Somebody connects; False: nobody is there."""
        if self.up:
            connection.run = self.run
            self.connections[connection] = None
        return self.up

    def receive(self, connection: Connection, commands: Sequence[bytes], hear: Hear) -> None:
        """Commands arrive, to be carried out now, or when it is not frozen any more."""
        if self.up and connection.run == self.run:
            self._waiting.setdefault(connection, []).append(
                lambda: self._answer(connection, commands, hear)
            )
            self._work()

    def subscribe(self, connection: Connection, channel: bytes, hear: Hear) -> None:
        """Somebody wants to hear what is said on a channel."""
        if self.up and connection.run == self.run:
            self._subscribers.setdefault(channel, {})[connection] = hear

    def freeze(self) -> None:
        """Stand still; what arrives is kept."""
        self._frozen += 1

    def thaw(self) -> None:
        """Go on."""
        self._frozen = max(0, self._frozen - 1)
        self._work()

    def crash(self) -> None:
        """Go down. Every connection breaks."""
        self.up = False
        self._frozen = 0
        self._waiting.clear()
        for connection in list(self.connections):
            connection.break_off()
        self.connections.clear()

    def restart(self, *, forgets: bool) -> None:
        """Come up again, with or without what was there."""
        self.up = True
        self.run += 1
        self.started_at = self.timeline.now
        kept = self.data
        self._forget()
        if forgets:
            self.forgot_at = self.timeline.now
        else:
            self.data = kept

    def is_idle(self, connection: Connection) -> bool:
        """Whether nothing that arrived on a connection is yet to be carried out."""
        return not self._waiting.get(connection)

    def _work(self) -> None:
        """Carry out what has arrived: of each connection in order, of several in any."""
        while self._waiting and not self._frozen:
            some = list(self._waiting)
            connection = some[0] if len(some) == 1 else self.timeline.random.choice(some)
            actions = self._waiting[connection]
            action = actions.pop(0)
            if not actions:
                del self._waiting[connection]
            action()

    def _answer(self, connection: Connection, commands: Sequence[bytes], hear: Hear) -> None:
        replies = [self.execute(command) for command in commands]
        connection.to_client(lambda: hear(replies))

    def execute(self, command: bytes) -> Any:
        """Carry out one command, in the words of the protocol; an error is given, not raised."""
        words = command.split(b"\r\n")[2::2]
        try:
            reply = self._perform(words)
        except (CommandError, ScriptError, WrongTypeError) as error:
            self._defect(f"{self.name} was told nonsense: {words!r}: {error}")
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
        """Say something to all who listen to a channel; how many they are."""
        living = self._living(channel)
        for connection, hear in living:
            connection.to_client(lambda hear=hear: hear(message))  # type: ignore[misc]
        return len(living)

    def listeners(self, channel: bytes) -> int:
        """How many listen to a channel."""
        return len(self._living(channel))

    def _living(self, channel: bytes) -> list[tuple[Connection, Hear]]:
        subscribers = self._subscribers.get(channel, {})
        return [(each, hear) for each, hear in subscribers.items() if not each.broken]


@cache
def _sha(source: bytes) -> bytes:
    """The name under which a server keeps a script."""
    return sha1(source, usedforsecurity=False).hexdigest().encode()
