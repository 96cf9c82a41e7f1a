"""The way from a client to a virtual etcd: calls and streams, which can be lost, late, or both."""

from functools import partial
from typing import Any

from holdfast.engines.etcd.connection import NoAnswer, read_error
from holdfast.engines.etcd.protocol import WATCH
from holdfast.lab.simulator.driver import BaseClient
from holdfast.lab.simulator.network import Connection
from holdfast.lab.simulator.store import Link, Resume, Wiring


class Channel(Link):
    """The way to one server, as gRPC has it. Each call is a connection of its own: those that are
    under way together arrive, and are carried out, in any order."""

    def __init__(self, client: BaseClient, wiring: Wiring, index: int) -> None:
        super().__init__(client, wiring, index)
        self.calls: dict[Connection, None] = {}
        self.streams: dict[Connection, None] = {}

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
            connection.reset(ghost=ghost, late=late or self.network.lateness())

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

        def time_out() -> None:
            fate = client.timeline.random.choice(("lost", "late", "on its way"))
            if connection in self.calls and fate != "on its way":
                connection.reset(ghost=fate == "late", late=self.network.lateness())
            end(NoAnswer("did not answer in time"))

        connection = self.connection(lambda: end(NoAnswer("the connection broke")))
        self.calls[connection] = None
        data = (method, [encode(each) for each in requests])
        self.send(connection, data, lambda replies: end(read(replies)))
        client.at(until, time_out)

    def deliver(self, connection: Connection, data: Any, received: Resume) -> None:
        """Something arrives at the server, if it is up."""
        if self.server.accept(connection):
            super().deliver(connection, data, received)
        else:
            connection.reset()


class Stream:
    """A stream of watches."""

    def __init__(self, channel: Channel, encode: Any, decode: Any, receive: Resume) -> None:
        self._channel = channel
        self._encode, self._decode, self._receive = encode, decode, receive
        self._broken: Resume | None = None
        self._connection = channel.connection(self.end)
        channel.streams[self._connection] = None

    def send(self, request: Any) -> None:
        """Send a request."""
        self._channel.send(self._connection, ("Watch", [self._encode(request)]), self._received)

    def until_broken(self, resume: Resume) -> None:
        """Call back when it is lost."""
        self._broken = resume

    def close(self) -> None:
        """End it."""
        self._channel.streams.pop(self._connection, None)
        self._broken = None
        self._connection.reset()

    def _received(self, replies: Any) -> None:
        if self._broken is not None:
            for reply in replies:
                self._receive(self._decode(reply))

    def end(self) -> None:
        """It is lost, or of no use any more."""
        if self._broken is not None:
            self._broken(None)
