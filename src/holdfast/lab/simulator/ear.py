"""How a client hears wake-ups: a connection of its own to each node, on which it subscribes."""

from collections.abc import Callable

from holdfast.engines.redis.nodes import REDIAL_AFTER, Fleet, Node
from holdfast.lab.simulator.line import User
from holdfast.lab.simulator.network import Connection, Network, Wire
from holdfast.lab.simulator.server import Server


class Ear:
    """Listens to one node, from when it is first wanted."""

    def __init__(
        self,
        user: User,
        network: Network,
        fleet: Fleet,
        node: Node,
        server: Server,
        there: Wire,
        back: Wire,
    ) -> None:
        self._user, self._network, self._fleet = user, network, fleet
        self._node, self._server, self._there, self._back = node, server, there, back
        self._connection: Connection | None = None
        self._ready: list[Callable[[], None]] = []

    def listen(self, ready: Callable[[], None]) -> None:
        """See to it that wake-ups are heard, and tell when they are."""
        self._ready.append(ready)
        if self._connection is None:
            self._connect()

    def break_off(self, *, ghost: bool) -> None:
        """The connection breaks."""
        if self._connection is not None:
            self._connection.break_off(ghost=ghost)

    def crash(self) -> None:
        """The client is no more."""
        self.break_off(ghost=False)

    def _connect(self) -> None:
        channel = self._fleet.channel.encode()

        def knock(connection: Connection) -> None:
            if self._server.accept(connection):
                self._server.subscribe(connection, channel, heard)
                connection.to_client(self._user.arrives(lambda: self._hears(connection)))
            else:
                connection.break_off()

        def heard(message: bytes) -> None:
            holder, *words = message.decode().split(" ")
            self._user.arrives(lambda: self._fleet.heard(holder, words, self._ring_later))()

        made = Connection(
            self._network, self._there, self._back, self._user.arrives(lambda: self._lose(made))
        )
        self._connection = made
        made.dial(knock)

    def _hears(self, connection: Connection) -> None:
        if self._connection is connection:
            self._fleet.listens(self._node)
            ready, self._ready = self._ready, []
            for tell in ready:
                tell()

    def _lose(self, connection: Connection) -> None:
        if self._connection is connection:
            self._fleet.deaf(self._node)
            self._user.at(self._user.clock() + REDIAL_AFTER, self._connect)

    def _ring_later(self, delay: float, holder: str) -> None:
        self._user.at(self._user.clock() + delay, lambda: self._notify(holder))

    def _notify(self, holder: str) -> None:
        if holder in self._fleet.waiting:
            self._fleet.around.notify(holder)
