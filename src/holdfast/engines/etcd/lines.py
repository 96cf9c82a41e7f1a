"""The endpoints of a cluster, and a line to each: what both ways of talking share.

One endpoint is talked to until it gives trouble; then the next one is. Every call carries
`hasleader`, so that a member without a leader says so instead of keeping us waiting.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc

from holdfast.engines.etcd import phrases
from holdfast.engines.etcd.protocol import METHODS, Method
from holdfast.engines.etcd.replies import Refused, Trouble, judge
from holdfast.events import Event, NodeFailed, NodeRecovered

SETTINGS = (
    ("grpc.use_local_subchannel_pool", 1),  # a client's connections are its own
    ("grpc.enable_http_proxy", 0),  # $http_proxy is for web pages, and no way to a cluster
    ("grpc.enable_retries", 0),  # when to try again is the algorithm's business
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

FAREWELL = 1.0
"""How long to try to tell the servers that nobody waits any more."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where the members are, and how to introduce oneself."""

    endpoints: tuple[str, ...]
    user: str = ""
    password: str = field(default="", repr=False)
    security: Callable[[], grpc.ChannelCredentials] | None = None


class Line:
    """A channel to one endpoint."""

    def __init__(self, name: str, channel: Any) -> None:
        self.name, self.channel, self.trouble = name, channel, ""
        self._calls: Mapping[Method, Any] = {each: each.on(channel) for each in METHODS}

    def __getitem__(self, method: Method) -> Any:
        return self._calls[method]


def _pairs(*pairs: tuple[str, str]) -> Any:
    return pairs


class Lines:
    """The lines of one client; `grpc` or `grpc.aio` makes the channels, and `pack` makes of pairs
    of words what that library sends along with every call."""

    def __init__(
        self,
        cluster: Cluster,
        library: Any,
        emit: Callable[[Event], None],
        pack: Callable[..., Any] = _pairs,
    ) -> None:
        self.cluster, self._library, self._emit, self._pack = cluster, library, emit, pack
        self.introduction = phrases.log_in(cluster.user, cluster.password)
        self._begin()

    def _begin(self) -> None:
        self._lines: dict[str, Line] = {}
        self.order = list(self.cluster.endpoints)
        self.logged_in("")

    def forget(self) -> None:
        """In a forked child: the channels are the parent's."""
        keep_for_ever(*self.hang_up())
        self._begin()

    @property
    def current(self) -> Line:
        """The line to talk on."""
        return self[self.order[0]]

    def __getitem__(self, name: str) -> Line:
        line = self._lines.get(name)
        if line is None:
            line = self._lines.setdefault(name, Line(name, self._open(name)))
        return line

    def avoid(self, line: Line, why: str) -> None:
        """It gave trouble: next time, try the others first."""
        if line.name == self.order[0]:
            self.order = [*self.order[1:], line.name]
        if not line.trouble and len(self.order) > 1:
            self._emit(NodeFailed(line.name, why))
        line.trouble = why

    def prefer(self, line: Line) -> None:
        """It answered."""
        if line.name != self.order[0]:
            self.order = [line.name, *(each for each in self.order if each != line.name)]
        if line.trouble:
            line.trouble = ""
            if len(self.order) > 1:
                self._emit(NodeRecovered(line.name))

    def logged_in(self, token: str) -> None:
        """What shows from now on who we are; nothing, if that is to be found out anew."""
        self.needs_login = bool(self.cluster.user) and not token
        words = (HAS_LEADER, ("token", token)) if token else (HAS_LEADER,)
        self.metadata = self._pack(*words)

    def judge(self, error: grpc.RpcError) -> Refused:
        """What an error of a call means; a login that has expired is trouble that passes."""
        refused = judge(error)
        if refused.wants_login and self.cluster.user:
            self.logged_in("")
            raise Trouble("the login has expired")
        return refused

    def hang_up(self) -> list[Line]:
        """The lines that there were, to be closed."""
        lines, self._lines = self._lines, {}
        return list(lines.values())

    def _open(self, name: str) -> Any:
        secure = self.cluster.security
        if secure is None:
            return self._library.insecure_channel(name, options=SETTINGS)
        return self._library.secure_channel(name, secure(), options=SETTINGS)


_parents: list[object] = []


def keep_for_ever(*things: object) -> None:
    """In a forked child: to drop what is the parent's would close it, or hang."""
    _parents.extend(things)
