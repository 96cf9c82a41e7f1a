"""A proxy between clients and one server, with the faults of a network."""

import asyncio
import threading
from collections.abc import Callable
from typing import Self, TypeVar

from holdfast.lab.servers.process import HOST
from tests.equipment.servers.wire import Conditions, Connection, Direction, Lane, Side

T = TypeVar("T")

BOTH: tuple[Direction, Direction] = ("requests", "replies")


class Proxy:
    """Forwards bytes between a port of its own and that of a server, in a thread of its own.

    Every control can be used at any time, from any thread, and is in force when it returns. It
    keeps to what TCP can do: bytes keep their order, and a connection of which bytes were lost is
    never used again. A close, reset or refusal on one side is seen on the other.

    >>> with Proxy(6379) as proxy:  # clients connect to proxy.port
    ...     proxy.delay(0.010)
    ...     proxy.heal()
    """

    def __init__(self, target_port: int) -> None:
        self.port = 0
        self._target_port = target_port
        self._conditions = Conditions()
        self._connections: set[Connection] = set()
        self._started = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="holdfast-proxy", daemon=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.close()

    def start(self) -> Self:
        """Listen, from when this returns."""
        self._thread.start()
        self._started.wait()
        if self._failed is not None:
            raise self._failed
        return self

    def close(self) -> None:
        """Listen no more, and reset every connection."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    @property
    def address(self) -> str:
        """Where it listens, as `host:port`."""
        return f"{HOST}:{self.port}"

    @property
    def connections(self) -> int:
        """How many connections there are."""
        return self._within_loop(lambda: len(self._living()))

    def delay(self, latency: float, jitter: float = 0.0) -> None:
        """Each direction takes `latency` seconds, and at random up to `jitter` more."""
        self._within_loop(lambda: self._set_delay(latency, jitter))

    def hold(self, *directions: Direction) -> None:
        """Hold back what is sent from now on, both directions unless given, until `release`.

        What the network does to a message that is late: `hold("replies")` makes a late reply.
        """
        self._within_loop(lambda: self._conditions.held.update(directions or BOTH))

    def release(self) -> None:
        """Deliver what was held back, in order, and hold nothing back any more."""
        self._within_loop(self._release)

    def waiting(self, direction: Direction) -> int:
        """How many bytes are in flight: a reply that waits proves that its request was executed."""
        return self._within_loop(lambda: sum(lane.waiting for lane in self._lanes(direction)))

    def cut(self, *directions: Direction) -> None:
        """Lose what is sent from now on, both directions unless given, without an error.

        New connections get no answer at all, since a handshake needs both directions. When it is
        healed, connections of which something was lost are reset.
        """
        self._within_loop(lambda: self._conditions.cut.update(directions or BOTH))

    def lose_replies(self) -> None:
        """The server executes what it receives, and its reply is replaced by a reset."""
        self._within_loop(lambda: setattr(self._conditions, "loses_replies", True))

    def half_open(self) -> None:
        """The server drops the connections there are, and the clients do not notice.

        New connections work. When it is healed, the old ones are reset.
        """
        self._within_loop(lambda: self._each(Connection.drop_server))

    def reset(self) -> None:
        """Reset the connections there are. New ones work."""
        self._within_loop(lambda: self._each(Connection.reset))

    def strand(self) -> None:
        """Reset the connections there are on the clients' side alone. New ones work. What was sent
        on the old ones, and has not arrived yet, does so with `release`.

        As TCP may deliver a message long after its sender has given up.
        """
        self._within_loop(self._strand)

    def heal(self) -> None:
        """End all faults: deliver what is late, and reset what can never be used again."""
        self._within_loop(self._heal)

    def _set_delay(self, latency: float, jitter: float) -> None:
        self._conditions.latency, self._conditions.jitter = latency, jitter

    def _release(self) -> None:
        self._conditions.held.clear()
        self._each(Connection.unstrand)
        for lane in self._lanes(*BOTH):
            lane.deliver()

    def _strand(self) -> None:
        self._each(Connection.strand)
        self._conditions.held.clear()

    def _heal(self) -> None:
        self._set_delay(0.0, 0.0)
        self._conditions.cut.clear()
        self._conditions.loses_replies = False
        for connection in self._living():
            if connection.damaged:
                connection.reset()
        self._conditions.held.clear()
        self._each(Connection.unstrand)
        for lane in self._lanes(*BOTH):
            lane.hurry()

    def _each(self, act: Callable[[Connection], None]) -> None:
        for connection in self._living():
            act(connection)

    def _living(self) -> set[Connection]:
        self._connections = {c for c in self._connections if not c.over}
        return self._connections

    def _lanes(self, *directions: Direction) -> list[Lane]:
        return [
            connection.lane(direction) for connection in self._living() for direction in directions
        ]

    def _within_loop(self, act: Callable[[], T]) -> T:
        """Do it in the event loop, which owns all state, and wait until it is done."""

        async def acting() -> T:
            return act()

        return asyncio.run_coroutine_threadsafe(acting(), self._loop).result()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failed = error
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        server = await self._loop.create_server(self._welcome, HOST, 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()
        self._each(Connection.reset)
        await asyncio.sleep(0)  # a turn of the loop, in which the resets are done

    def _welcome(self) -> Side:
        connection = Connection(self._conditions, self._target_port)
        self._connections = {*self._living(), connection}
        return connection.accept()
