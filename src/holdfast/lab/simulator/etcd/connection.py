"""The way from a client to a virtual etcd: calls and streams, which can be lost, late, or both."""

from collections.abc import Callable
from functools import partial
from typing import Any

from holdfast.engines.etcd.connection import NoAnswer, read_error
from holdfast.engines.etcd.protocol import WATCH
from holdfast.lab.simulator.activity import Resume
from holdfast.lab.simulator.network import Connection
from holdfast.lab.simulator.server import BaseServer
from holdfast.lab.simulator.wiring import Owner, Wiring


class Channel:
    """The way to one server, as gRPC has it. Each call is a connection of its own: those that are
    under way together arrive, and are carried out, in any order."""

    def __init__(self, client: Owner, wiring: Wiring, index: int) -> None:
        self.client, self._network = client, wiring.network
        self._server: BaseServer = wiring.servers[index]
        self._there, self._back = wiring.there[index], wiring.back[index]
        self.calls: dict[Connection, None] = {}
        self.streams: dict[Connection, None] = {}
        self.breaks = 0
        """How often a reply did not come: each time, something may have been left behind."""

    @property
    def is_idle(self) -> bool:
        """Whether all that was sent has been answered."""
        return not self.calls

    def unary_unary(self, path: str, *, request_serializer: Any, response_deserializer: Any) -> Any:
        """What sends a call."""
        method = path.rpartition("/")[2]
        return partial(self._call, method, request_serializer, response_deserializer)

    def stream_stream(self, path: str, **codec: Any) -> Any:
        """What opens a stream; keep-alives are sent, and answered, together."""
        if path == WATCH.path:
            return partial(
                Stream, self, codec["request_serializer"], codec["response_deserializer"]
            )
        return self.unary_unary(path, **codec)

    def reset(self, *, ghost: bool, late: float = 0.0) -> None:
        """All connections break; the client learns of it in a while. What a server has accepted
        may be carried out much later."""
        for connection in (*self.calls, *self.streams):
            connection.reset(ghost=ghost, late=late or self._network.lateness())

    def _call(
        self, method: str, encode: Any, decode: Any, requests: Any, until: float, resume: Resume
    ) -> None:
        client = self.client

        def end(result: Any) -> None:
            if connection in self.calls:
                del self.calls[connection]
                self.breaks += isinstance(result, NoAnswer)
                resume(result)

        def read(replies: Any) -> Any:
            try:
                return [decode(e) if isinstance(e, bytes) else read_error(e) for e in replies]
            except NoAnswer as error:
                return error

        def received(replies: Any) -> None:
            client.arrives(lambda: end(read(replies)))()

        def time_out() -> None:
            fate = client.timeline.random.choice(("lost", "late", "on its way"))
            if connection in self.calls and fate != "on its way":
                connection.reset(ghost=fate == "late", late=self._network.lateness())
            end(NoAnswer("did not answer in time"))

        broken = client.arrives(lambda: end(NoAnswer("the connection broke")))
        connection = self.connect(broken)
        self.calls[connection] = None
        self.send(connection, (method, [encode(each) for each in requests]), received)
        client.at(until, time_out)

    def connect(self, broken: Callable[[], None]) -> Connection:
        """A new connection."""
        return Connection(self._network, self._there, self._back, broken)

    def send(self, connection: Connection, data: Any, received: Resume) -> None:
        """Send something there."""

        def arrive() -> None:
            if self._server.accept(connection):
                self._server.receive(connection, data, received)
            else:
                connection.reset()

        connection.to_node(arrive)


class Stream:
    """A stream of watches."""

    def __init__(self, channel: Channel, encode: Any, decode: Any, receive: Resume) -> None:
        self._channel, self._client = channel, channel.client
        self._encode, self._decode, self._receive = encode, decode, receive
        self._broken: Resume | None = None
        self._connection = channel.connect(self._client.arrives(self.end))
        channel.streams[self._connection] = None

    def send(self, request: Any) -> None:
        """Send a request."""
        self._channel.send(
            self._connection, ("Watch", [self._encode(request)]), self._client_receives
        )

    def until_broken(self, resume: Resume) -> None:
        """Call back when it is lost."""
        self._broken = resume

    def close(self) -> None:
        """End it."""
        self._channel.streams.pop(self._connection, None)
        self._broken = None
        self._connection.reset()

    def _client_receives(self, replies: Any) -> None:
        self._client.arrives(lambda: self._received(replies))()

    def _received(self, replies: Any) -> None:
        if self._broken is not None:
            for reply in replies:
                self._receive(self._decode(reply))

    def end(self) -> None:
        """It is lost, or of no use any more."""
        if self._broken is not None:
            self._broken(None)
