"""The connections to the members of a cluster, and what their errors mean.

Every call carries `hasleader`, so that a member without a leader answers with an error instead of
waiting for one.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

import grpc

from holdfast.engines.etcd import commands
from holdfast.engines.etcd.protocol import METHODS, Method
from holdfast.engines.queue import Rejected
from holdfast.engines.urls import hint_for_tls
from holdfast.events import Event, NodeFailed, NodeRecovered

SETTINGS = (
    ("grpc.use_local_subchannel_pool", 1),  # a client's connections are its own
    ("grpc.enable_http_proxy", 0),  # $http_proxy is for web pages, and no way to a cluster
    ("grpc.enable_retries", 0),  # when to try again is the algorithm's business
    ("grpc.max_receive_message_length", -1),  # the keys of ten thousand locks
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 2000),  # which is how long one attempt may take
    ("grpc.max_reconnect_backoff_ms", 100),
    ("grpc.keepalive_time_ms", 10_000),  # servers take less than 5 s between two for an attack
    ("grpc.keepalive_timeout_ms", 5000),
    ("grpc.http2.max_pings_without_data", 0),
)

HAS_LEADER = ("hasleader", "true")

SHORTEST = 0.001
"""The least that a call is given, in seconds."""

PAUSE = 0.1
"""Seconds before the same endpoint is asked again; gRPC takes as long to reconnect."""

Code = grpc.StatusCode
NO_SUCH_LEASE = Code.NOT_FOUND
LEASE_EXISTS = Code.FAILED_PRECONDITION
FROM_SERVER = "etcdserver: "
OLD_LOGIN = "revision of auth store is old"

NO_ANSWER = {
    Code.UNAVAILABLE,
    Code.CANCELLED,
    Code.ABORTED,
    Code.UNKNOWN,
    Code.INTERNAL,
    Code.DEADLINE_EXCEEDED,
}
"""Errors of an endpoint; another one may answer."""

FOR_GOOD = {
    Code.PERMISSION_DENIED,
    Code.UNAUTHENTICATED,
    Code.INVALID_ARGUMENT,  # a wrong password, among others
    Code.FAILED_PRECONDITION,  # a login where authentication is not enabled
    Code.UNIMPLEMENTED,
}
"""Errors that waiting does not heal."""


class NoAnswer(Exception):
    """This endpoint did not answer; another one may."""

    def __init__(self, why: str, *, electing: bool = False) -> None:
        super().__init__(why)
        self.electing = electing
        """Whether the member itself reported it, as it does while a leader is being elected: it is
        worth asking again in a moment."""


class ErrorReply(NamedTuple):
    """An error that is a reply: the server has understood the call, and refused it."""

    code: Any
    why: str


def read_error(error: grpc.RpcError) -> ErrorReply:
    """What an error of a call means: a refusal is returned, `NoAnswer` is raised."""
    call: Any = error
    code, text = call.code(), str(call.details() or call.code().name)
    why = text.removeprefix(FROM_SERVER)
    if code is Code.DEADLINE_EXCEEDED:
        raise NoAnswer("did not answer in time") from None
    if code in NO_ANSWER:
        why += hint_for_tls(why, "etcd")
        raise NoAnswer(why, electing=text.startswith(FROM_SERVER)) from None
    return ErrorReply(code, why)


def accepted(reply: Any) -> Any:
    """The reply; an error is raised as `Rejected`."""
    if isinstance(reply, ErrorReply):
        raise Rejected(reply.why, inf if reply.code in FOR_GOOD else None)
    return reply


@dataclass
class Cluster:
    """Where the members are, and how to log in."""

    endpoints: tuple[str, ...]
    user: str = ""
    password: str = field(default="", repr=False)
    security: Callable[[], grpc.ChannelCredentials] | None = None

    def channel(self, endpoint: str) -> Any:
        """A channel to one member."""
        if self.security is None:
            return grpc.insecure_channel(endpoint, options=SETTINGS)
        return grpc.secure_channel(endpoint, self.security(), options=SETTINGS)


class Connection:
    """A channel to one endpoint."""

    def __init__(self, name: str, channel: Any) -> None:
        self.name, self.channel = name, channel
        self._calls: Mapping[Method, Any] = {each: each.on(channel) for each in METHODS}

    def __getitem__(self, method: Method) -> Any:
        return self._calls[method]


class Connections:
    """The connections of one client.

    The main thread has channels of its own. A signal handler that raises inside gRPC there, as on a
    Ctrl-C, may leave a lock of the channel locked, and calls of other threads would never end.
    """

    def __init__(self, cluster: Cluster, emit: Callable[[Event], None]) -> None:
        self.cluster, self._emit = cluster, emit
        self.login = commands.log_in(cluster.user, cluster.password)
        self.closed = False
        self._open: dict[tuple[str, bool], Connection] = {}
        """By name, and whether it is the main thread's."""
        self._failed: set[str] = set()
        """The endpoints that did not answer the last time."""
        self.order = list(cluster.endpoints)
        self.logged_in("")

    @property
    def current(self) -> Connection:
        """The one to use."""
        return self[self.order[0]]

    def __getitem__(self, name: str) -> Connection:
        key = name, threading.current_thread() is threading.main_thread()
        connection = self._open.get(key)
        if connection is None:
            channel = self.cluster.channel(name)
            connection = self._open.setdefault(key, Connection(name, channel))
        return connection

    def failed(self, connection: Connection, why: str) -> None:
        """Try the others first, from now on."""
        if connection.name == self.order[0]:
            self.order = [*self.order[1:], connection.name]
        if connection.name not in self._failed and len(self.order) > 1:
            self._emit(NodeFailed(connection.name, why))
        self._failed.add(connection.name)

    def answered(self, connection: Connection) -> None:
        """It has answered: it does not fail any more."""
        if connection.name in self._failed:
            self._failed.discard(connection.name)
            if len(self.order) > 1:
                self._emit(NodeRecovered(connection.name))

    def interrupted(self, connection: Connection) -> None:
        """A signal handler raised inside gRPC, or no thread could be started: calls on this channel
        may never end. Do not use it again, nor close it."""
        for key in [key for key, each in list(self._open.items()) if each is connection]:
            self._open.pop(key, None)
        keep_forever(connection)

    def logged_in(self, token: str) -> None:
        """Send this token with every call; empty: log in first, where there is a user."""
        self.needs_login = bool(self.cluster.user) and not token
        self.metadata = (HAS_LEADER, ("token", token)) if token else (HAS_LEADER,)

    def has_expired(self, reply: Any) -> bool:
        """Whether a reply is that the login has expired."""
        if not self.cluster.user or not isinstance(reply, ErrorReply):
            return False
        return reply.code is Code.UNAUTHENTICATED or OLD_LOGIN in reply.why

    def read_error(self, error: grpc.RpcError) -> ErrorReply:
        """The same as `read_error` for a stream: a login that has expired is `NoAnswer`."""
        reply = read_error(error)
        if self.has_expired(reply):
            self.logged_in("")
            raise NoAnswer("the login has expired", electing=True)
        return reply

    def close(self) -> list[Connection]:
        """Open no more; gives all connections, to be closed."""
        self.closed = True
        connections, self._open = self._open, {}
        return list(connections.values())


_kept: list[object] = []


def keep_forever(*things: object) -> None:
    """Never drop a channel whose end would hang, or close what is a parent process's."""
    _kept.extend(things)
