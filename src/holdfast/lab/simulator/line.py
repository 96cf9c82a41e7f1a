"""A client's connection to one node: made when it is needed, and again after it broke."""

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Any, Protocol

from holdfast.core.fanout import FanOut
from holdfast.core.messages import Inspect, Release
from holdfast.engines.redis.nodes import (
    CONNECT_TIMEOUT,
    REDIAL_AFTER,
    SILENT,
    Node,
    RefusedError,
    accept,
)
from holdfast.engines.redis.owed import Owed
from holdfast.engines.redis.phrases import Phrase, Reply, failed
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


class Line:
    """The way to one node. What is said first is carried out first."""

    def __init__(
        self,
        user: User,
        network: Network,
        node: Node,
        server: Server,
        there: Wire,
        back: Wire,
    ) -> None:
        self._user, self._network, self._server = user, network, server
        self._there, self._back = there, back
        self.node = node
        self.is_up = False
        self.breaks = 0
        """How often a connection broke: each time, something may have been left behind."""
        self._connection: Connection | None = None
        self._owed: deque[Owed] = deque()
        self._redial_at = -inf
        self._settled: list[Callable[[], None]] = []

    @property
    def is_dialling(self) -> bool:
        """Whether a connection is being made."""
        return self._connection is not None and not self.is_up

    @property
    def is_idle(self) -> bool:
        """Whether all that was said has been answered, on a connection that is well."""
        return self.is_up and not self._owed

    def is_overdue(self, now: float) -> bool:
        """Whether the oldest answer should have come by now."""
        return bool(self._owed) and self._owed[0].poll.until < now

    def ask(self, phrase: Phrase, poll: FanOut, bell: Any, *, stuck: bool) -> None:
        """Say a poll's requests; what cannot be said has failed, but releases go out anyway."""
        if not self.is_up or stuck:
            why = self.node.trouble or (SILENT if self.is_up else "still connecting")
            poll.take(self.node.index, [failed(why)] * len(poll.requests))
            if not self.is_up or type(poll.requests[0]) is not Release:
                return
        self._say(Owed(phrase, poll, bell))

    def dial(self, has_others: Callable[[], bool], settled: Callable[[], None]) -> None:
        """Connect, unless that is under way or was tried just now; tell when it is settled."""
        if self.is_up:
            return
        if self._connection is None:
            if self._user.clock() < self._redial_at:
                return
            self._connect(has_others)
        self._settled.append(settled)

    def break_off(self, *, ghost: bool, late: float = 0.0) -> None:
        """The connection breaks."""
        if self._connection is not None:
            self._connection.break_off(ghost=ghost, late=late)

    def crash(self) -> None:
        """The client is no more: the node is told at once that nobody listens."""
        self.break_off(ghost=True)

    def _connect(self, has_others: Callable[[], bool]) -> None:
        made: Connection

        def gone() -> None:
            if self._connection is made:
                self._lose("the connection broke", has_others)

        def knock(connection: Connection) -> None:
            answer = self._greet if self._server.accept(connection) else refuse
            connection.to_client(self._user.arrives(lambda: answer(connection)))

        def refuse(connection: Connection) -> None:
            if self._connection is connection:
                self._lose("refused", has_others)

        def give_up() -> None:
            if self._connection is made and not self.is_up:
                made.break_off()
                self._lose("could not be connected to in time", has_others)

        made = Connection(self._network, self._there, self._back, self._user.arrives(gone))
        self._connection = made
        made.dial(knock)
        self._user.at(self._user.clock() + CONNECT_TIMEOUT, give_up)

    def _greet(self, connection: Connection) -> None:
        """Ask what must be known before anything else is said."""
        if self._connection is not connection:
            return
        greeting = self.node.greeting()
        if greeting is None:
            self._establish()
        else:
            poll = FanOut((Inspect(""),), (self.node.index,), inf)
            self._say(Owed(greeting, poll, _Greeted(self, poll)))

    def accepted(self, poll: FanOut) -> None:
        """The node has answered the greeting."""
        try:
            accept(poll.answers[self.node.index])
        except RefusedError as error:
            self._user.fails(error)
        self._establish()

    def _establish(self) -> None:
        self.is_up = True
        self._settle()

    def _settle(self) -> None:
        settled, self._settled = self._settled, []
        for tell in settled:
            tell()

    def _lose(self, why: str, has_others: Callable[[], bool]) -> None:
        self.breaks += 1
        self.is_up = False
        self._connection = None
        self._owed.clear()
        self.node.is_in_trouble(why)
        if has_others():
            self._redial_at = self._user.clock() + REDIAL_AFTER
        self._settle()

    def _say(self, owed: Owed) -> None:
        connection = self._connection
        assert connection is not None, "said on no connection"  # noqa: S101 - of this module alone
        self._owed.append(owed)
        commands = owed.phrase.commands
        hear = self._user.arrives

        def heard(replies: list[Reply]) -> None:
            hear(lambda: self._hear(connection, replies))()

        connection.to_node(lambda: self._server.receive(connection, commands, heard))

    def _hear(self, connection: Connection, replies: list[Reply]) -> None:
        """Hand replies to whoever asked first."""
        if self._connection is not connection:
            return None
        first = self._owed.popleft()
        try:
            more = first.hear(self.node, replies, self._owed)
        except Exception as error:  # noqa: BLE001 - a defect, to be told
            return self._user.fails(error)
        if more is not None:
            self._say(more)
        elif first.poll.over:
            first.notify()
        return None


class _Greeted:
    """A bell that is rung when a greeting is answered."""

    def __init__(self, line: Line, poll: FanOut) -> None:
        self._line, self._poll = line, poll

    def done(self) -> bool:
        """It is rung once."""
        return self._line.is_up

    def set_result(self, result: None) -> None:
        """The connection can be used."""
        self._line.accepted(self._poll)
