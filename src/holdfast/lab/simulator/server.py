"""A virtual Redis server: takes the very commands that the engine sends, and gives raw replies."""

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.engines.redis.scripts import scripts
from holdfast.lab.simulator.clock import EPOCH, Clock
from holdfast.lab.simulator.keyspace import Keyspace, WrongTypeError
from holdfast.lab.simulator.network import Connection
from holdfast.lab.simulator.scripts import SCRIPTS
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
        self.data = Keyspace(self.clock, self._publish)
        self._loaded: set[bytes] = set()
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
            return self._perform(words)
        except (ValueError, WrongTypeError, LookupError) as error:
            self._defect(f"{self.name} was told nonsense: {words!r}: {error}")
            return Exception(f"ERR {error}")

    def _perform(self, words: Sequence[bytes]) -> Any:
        match words:
            case [b"EVALSHA", sha, count, *rest]:
                if sha not in self._loaded:
                    return Exception("NOSCRIPT No matching script. Please use EVAL.")
                keys = int(count)
                return SCRIPTS[sha](self.data, rest[:keys], rest[keys:])
            case [b"SCRIPT", b"LOAD", source]:
                return self._load(source)
            case [b"INFO", b"server"]:
                uptime = int(self.timeline.now - self.started_at)
                return b"run_id:%d\r\nuptime_in_seconds:%d" % (self.run, uptime)
            case [b"CONFIG", b"GET", b"*append*"]:
                always, yes = (b"always", b"yes") if self.durable else (b"everysec", b"no")
                settings = (b"appendonly", yes, b"appendfsync", always)
                return [*settings, b"no-appendfsync-on-rewrite", b"no"]
            case [b"SET", key, value, b"NX"]:
                return b"OK" if self.data.set_nx(key, value) else None
            case [b"GET", key]:
                return self.data.get(key)
            case _:
                raise ValueError("no such command here")

    def _load(self, source: bytes) -> bytes:
        sha = _SHA.get(source)
        if sha is None:
            raise ValueError("no such script here")
        self._loaded.add(sha)
        return sha

    def _publish(self, channel: bytes, message: bytes) -> int:
        subscribers = self._subscribers.get(channel, {})
        living = [connection for connection in subscribers if not connection.broken]
        for connection in living:
            connection.to_client(lambda hear=subscribers[connection]: hear(message))  # type: ignore[misc]
        return len(living)


_SHA = {each.source: each.sha for each in scripts()}
