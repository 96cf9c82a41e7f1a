"""A client's virtual connection to one node: it carries the bytes of the engine's own pipeline."""

from collections.abc import Callable
from typing import Protocol

from holdfast.engines.redis.connection import BROKEN, explain
from holdfast.engines.redis.node import CONNECT_TIMEOUT, Node
from holdfast.lab.simulator.network import Connection, Network, Wire
from holdfast.lab.simulator.server import Server


class User(Protocol):
    """What a line needs of its client."""

    def clock(self) -> float:
        """What its clock says."""
        ...

    def at(self, instant: float, action: Callable[[], None]) -> None:
        """Do something when its clock says so."""
        ...

    def arrives(self, action: Callable[[], None]) -> Callable[[], None]:
        """A message as it comes in."""
        ...

    def fails(self, error: Exception) -> None:
        """Something raised that must not."""
        ...


class Owner(Protocol):
    """What a line needs of its store."""

    def receiving(self) -> None:
        """Something is about to be read."""
        ...

    def received(self) -> None:
        """Something was read."""
        ...


class Line:
    """The connection to one node, made when it is needed, and again after it broke."""

    def __init__(
        self,
        user: User,
        owner: Owner,
        network: Network,
        node: Node,
        server: Server,
        there: Wire,
        back: Wire,
    ) -> None:
        self._user, self._owner, self._network, self._server = user, owner, network, server
        self._there, self._back = there, back
        self._node = node
        self._connection: Connection | None = None
        self.breaks = 0
        """How often a connection broke: each time, something may have been left behind."""

    @property
    def is_idle(self) -> bool:
        """Whether all that was sent has been answered, on a connection that is well."""
        pipeline = self._node.pipeline
        return self._node.ready and pipeline is not None and not pipeline.pending

    def connect(self) -> None:
        """Begin to connect."""
        made: Connection

        def gone() -> None:
            self._lose(made, "the connection broke")

        def knock(connection: Connection) -> None:
            answer = self._establish if self._server.accept(connection) else self._refuse
            connection.to_client(self._user.arrives(lambda: answer(connection)))

        def give_up() -> None:
            if self._node.connecting:
                self._lose(made, "no connection in time")

        made = Connection(self._network, self._there, self._back, self._user.arrives(gone))
        self._connection = made
        made.dial(knock)
        self._user.at(self._user.clock() + CONNECT_TIMEOUT, give_up)

    def flush(self) -> None:
        """Send what is outgoing."""
        connection, pipeline = self._connection, self._node.pipeline
        if connection is None or pipeline is None or not pipeline.outgoing:
            return
        data = b"".join(pipeline.outgoing)
        pipeline.outgoing.clear()

        def received(replies: bytes) -> None:
            self._user.arrives(lambda: self._receive(connection, replies))()

        connection.to_node(lambda: self._server.receive(connection, data, received))

    def disconnect(self, why: str, heals: float | None = None) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._lose(self._connection, why, heals)

    def break_off(self, *, ghost: bool, late: float = 0.0) -> None:
        """The connection breaks; the client learns of it in a while."""
        if self._connection is not None:
            self._connection.break_off(ghost=ghost, late=late)

    def crash(self) -> None:
        """The client is no more: the node learns at once that nobody listens."""
        self.break_off(ghost=True)

    def _establish(self, connection: Connection) -> None:
        if self._connection is connection:
            self._node.connected()
            self.flush()

    def _refuse(self, connection: Connection) -> None:
        self._lose(connection, "refused")

    def _lose(self, connection: Connection, why: str, heals: float | None = None) -> None:
        if self._connection is connection:
            self.breaks += 1
            self._connection = None
            connection.break_off()
            self._node.lost(why, heals)

    def _receive(self, connection: Connection, replies: bytes) -> None:
        pipeline = self._node.pipeline
        if self._connection is not connection or pipeline is None:
            return
        self._owner.receiving()
        try:
            pipeline.receive(replies)
            self.flush()
        except BROKEN as error:
            self._lose(connection, explain(error))
        except Exception as error:  # noqa: BLE001 - a defect, to be told
            self._user.fails(error)
        self._owner.received()
