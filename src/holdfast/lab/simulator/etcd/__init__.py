"""A virtual etcd: the store of a client over it, as `engines.etcd.threads` over a real one; and
what runs are like with it.

Exchanges, sessions, watches and failover are the engine's own. Calls and streams are virtual: they
can be lost, late, or both.
"""

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

from holdfast.core.messages import Request
from holdfast.engines.etcd import GUARANTEES, drift
from holdfast.engines.etcd.connection import Cluster, Connections, NoAnswer, read_error
from holdfast.engines.etcd.exchanges import Exchanges, Send, is_waiting
from holdfast.engines.etcd.protocol import WATCH
from holdfast.engines.etcd.waiters import LINGER, REOPEN_AFTER, TICK
from holdfast.lab.simulator.client import Client
from holdfast.lab.simulator.etcd.server import EtcdServer
from holdfast.lab.simulator.store import (
    Activity,
    Link,
    Resume,
    Scene,
    SimulatedEngine,
    Store,
    Waits,
)


class Channel(Link):
    """The way to one server, as gRPC has it. Each call is a connection of its own: those that are
    under way together arrive, and are carried out, in any order."""

    streams = 0
    """How many of its connections are streams, and not calls."""

    @property
    def is_idle(self) -> bool:
        """Whether all that was sent has been answered."""
        return len(self.open) == self.streams

    def unary_unary(self, path: str, *, request_serializer: Any, response_deserializer: Any) -> Any:
        """What sends a call."""
        method = path.rpartition("/")[2]
        return partial(self._call, method, request_serializer, response_deserializer)

    def stream_stream(self, path: str, **codec: Any) -> Any:
        """What opens a stream; that of a keep-alive has one message."""
        if path == WATCH.path:
            return partial(
                Stream, self, codec["request_serializer"], codec["response_deserializer"]
            )
        return self.unary_unary(path, **codec)

    def _call(
        self, method: str, encode: Any, decode: Any, requests: Any, until: float, resume: Resume
    ) -> None:
        client = self.client

        def end(result: Any) -> None:
            if connection in self.open:
                del self.open[connection]
                self.breaks += isinstance(result, NoAnswer)
                resume(result)

        def read(replies: Any) -> Any:
            try:
                return [decode(e) if isinstance(e, bytes) else read_error(e) for e in replies]
            except NoAnswer as error:
                return error

        def time_out() -> None:
            fate = client.timeline.random.choice(("lost", "late", "on its way"))
            if connection in self.open and fate != "on its way":
                connection.reset(ghost=fate == "late", late=self.network.lateness())
            end(NoAnswer("did not answer in time"))

        connection = self.connection(lambda: end(NoAnswer("the connection broke")))
        self.open[connection] = None
        data = (method, [encode(each) for each in requests])
        self.send(connection, data, lambda replies: end(read(replies)))
        client.at(until, time_out)


class Stream:
    """A stream of watches."""

    def __init__(self, channel: Channel, encode: Any, decode: Any, receive: Resume) -> None:
        self._channel = channel
        self._encode, self._decode, self._receive = encode, decode, receive
        self._broken: Resume | None = None
        self._connection = channel.connection(self.end)
        channel.open[self._connection] = None
        channel.streams += 1

    def send(self, request: Any) -> None:
        """Send a request."""
        self._channel.send(self._connection, ("Watch", [self._encode(request)]), self._received)

    def until_broken(self, resume: Resume) -> None:
        """Call back when it is lost."""
        self._broken = resume

    def close(self) -> None:
        """End it."""
        del self._channel.open[self._connection]
        self._channel.streams -= 1
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


class VirtualCluster(Cluster):
    """Members that are reached by virtual channels."""

    def __init__(self, channels: dict[str, Channel]) -> None:
        super().__init__(tuple(channels))
        self._channels = channels

    def channel(self, endpoint: str) -> Channel:
        """The channel to a server."""
        return self._channels[endpoint]


class EtcdStore(Store):
    """One cluster, for all that a client does."""

    sends = (Send,)

    def __init__(self, client: Client, scene: Scene) -> None:
        super().__init__(client, "etcd")
        randbits = Random(client.name).getrandbits  # noqa: S311 - to be repeatable, not secret
        channels = [Channel(client, scene, index) for index in range(len(scene.servers))]
        self.connections = channels
        names = (server.name for server in scene.servers)
        cluster = VirtualCluster(dict(zip(names, channels, strict=True)))
        self._connections = Connections(cluster, self.host.emit)
        self._exchanges = Exchanges(self._connections, self.host, {}, randbits)
        self._watches = False
        self._stream: Any = None

    def _ask(self, requests: Sequence[Request], until: float) -> Waits:
        answers = yield from self._drive(self._exchanges.ask(requests, until), requests)
        if is_waiting(requests, answers) and not self._watches:
            self._watches = True
            reader = Activity(self.client, self._read())
            self._start(reader)
            self._start(Activity(self.client, self._keep(reader)))
        return answers

    def _perform(self, effect: Send, resume: Resume) -> None:
        calls, connection, until = effect
        replies: dict[int, Any] = {}

        def received(number: int, got: Any) -> None:
            replies[number] = got if isinstance(got, NoAnswer) else got[0]
            if len(replies) == len(calls):
                resume(_together([replies[each] for each in range(len(calls))]))

        for number, call in enumerate(calls):
            connection[call.method]([call.request], until, partial(received, number))
        if not calls:
            resume([])

    def _keep(self, reader: Activity) -> Waits:
        """Keep waiters' sessions alive; end when there was none for a while."""
        idle = 0
        while idle <= LINGER:
            yield partial(self._sleep, TICK)
            connection = self._connections.current
            yield from self._drive(self._exchanges.keep_waiters())
            if connection is not self._connections.current and self._stream is not None:
                self._stream.end()  # that endpoint has failed
            idle = 0 if self._exchanges.registry.waited_for() else idle + 1
        self._watches = False
        reader.crash()

    def _read(self) -> Waits:
        """Read the stream of watches, and open it again when it was lost."""
        watches = self._exchanges.watches
        while True:
            self._stream = stream = self._connections.current[WATCH](watches.received)
            send = stream.send
            watches.opened(send)
            try:
                yield stream.until_broken
            finally:
                stream.close()
                watches.closed(send)
            yield partial(self._sleep, REOPEN_AFTER)


def _together(replies: list[Any]) -> Any:
    """What an exchange is sent for its calls; an error if one was not answered."""
    return next((each for each in replies if isinstance(each, NoAnswer)), replies)


ENGINE = SimulatedEngine(
    servers=EtcdServer,
    store=EtcdStore,
    drift=drift,
    ttls=(2.0, 3.0, 6.0),  # waiters have an etcd lease of at most 5 s
    min_ttl=GUARANTEES.min_ttl,
    ttl_step=GUARANTEES.ttl_step,
    sizes=(1, 1, 3),
    seconds=15.0,
    loses_data=False,
    lengthens=0.0,
    fair=True,
    busy=0.7,
    lingers=7.0,
)
