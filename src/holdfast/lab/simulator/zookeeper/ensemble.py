"""What the servers of a virtual ZooKeeper do together: they follow a leader, which carries out all
writes, in one order, and ends the sessions of which it has received nothing for too long.

A write needs a majority of the servers; so does the end of a session. A leader that has none is
followed by another one, which gives every session its whole timeout. What was proposed and not
acknowledged until then is carried out, or not.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from kazoo.exceptions import SessionExpiredError, ZookeeperError
from kazoo.protocol.serialization import Close, Connect, Sync

from holdfast.lab.simulator.driver import Clock, Timeline
from holdfast.lab.simulator.network import Connection, Network, Wire
from holdfast.lab.simulator.server import PRECISION, Receive
from holdfast.lab.simulator.zookeeper.tree import Change, Node, Tree, Writer

Member: TypeAlias = Any
"""A `ZooKeeperServer`."""

TICK = 0.25
"""Seconds to a tick."""

SYNC_LIMIT = 10
"""Half ticks after which a server and its leader give each other up."""

SHORTEST, LONGEST = 2 * TICK, 20 * TICK
"""The sessions that are granted."""


@dataclass(slots=True)
class Session:
    """A session, as its leader knows it."""

    timeout: float
    owner: Member
    """The server that the client is connected to."""
    ends_at: float = 0.0


class Entry(NamedTuple):
    """One step of the history that all servers have in common."""

    change: Change
    closes: int = 0
    """The session that it closes."""


class Proposal(NamedTuple):
    """A request that waits for a majority."""

    origin: Member
    session: int
    request: Any
    done: Receive


class Ensemble:
    """The leader, and what a majority of the servers has on disk."""

    def __init__(self, members: Sequence[Member], timeline: Timeline) -> None:
        self.members, self._timeline = members, timeline
        self._network = Network(timeline, timeline.random)
        self.tree = Tree({"": Node(b"", 0, 0)})
        self.sessions: dict[int, Session] = {}
        self._opened = 0
        self.log: list[Entry] = []
        """Its length is the zxid."""
        self._proposals: deque[Proposal] = deque()
        self.leader: Member | None = None
        self.term = 0
        self._pulse = self.link()

    def begin(self) -> None:
        """Elect the first leader."""
        self._elect()
        self._beat()

    def link(self) -> Connection:
        """A connection between two servers."""
        return Connection(self._network, Wire(), Wire(), lambda: None)

    @property
    def has_quorum(self) -> bool:
        """Whether a majority follows the leader."""
        following = [each for each in self.members if each.is_well and each.term == self.term]
        return self.leader in following and 2 * len(following) > len(self.members)

    def submit(self, proposal: Proposal) -> None:
        """The leader receives a request."""
        origin, number, request, done = proposal
        session = self.sessions.get(number)
        if isinstance(request, Connect):
            if request.session_id:
                return self._reply(origin, done, self._move(request.session_id, origin))
        elif session is None or session.owner is not origin:
            return self._reply(origin, done, SessionExpiredError())
        self._proposals.append(proposal)
        return self._proceed()

    def touch(self, sessions: Sequence[int]) -> None:
        """The leader learns that these are alive."""
        for each in sessions:
            if each in self.sessions:
                self._renew(self.sessions[each])

    def _renew(self, session: Session) -> None:
        """Sessions end together, at the next full tick."""
        ticks = (self._clock() + session.timeout) // TICK + 1
        session.ends_at = ticks * TICK

    def _clock(self) -> float:
        clock: Clock = (self.leader or self.members[0]).clock
        return clock()

    def _move(self, number: int, origin: Member) -> tuple[int, int]:
        """A client has connected to another server: what it sent elsewhere counts no more."""
        session = self.sessions.get(number)
        if session is None:
            return 0, 0
        session.owner = origin
        self._renew(session)
        return number, round(session.timeout * 1000)

    def _proceed(self) -> None:
        """Carry out what was received, in order. To catch up with the leader takes no majority."""
        while self._proposals:
            origin, _, request, done = self._proposals[0]
            if not isinstance(request, Sync) and not self.has_quorum:
                return
            self._reply(origin, done, self._perform(self._proposals.popleft()))

    def _perform(self, proposal: Proposal) -> Any:
        origin, session, request, _ = proposal
        if isinstance(request, Sync):
            return request.path
        if isinstance(request, Connect):
            return self._open(request.time_out / 1000, origin)
        if session not in self.sessions:
            return SessionExpiredError()
        if isinstance(request, Close):
            return self._close(session)
        writer = Writer(session, len(self.log) + 1, int(self._clock() * 1000))
        try:
            change, reply = self.tree.write(request, writer)
        except ZookeeperError as error:
            return error
        self._commit(Entry(change))
        return reply

    def _open(self, wanted: float, origin: Member) -> tuple[int, int]:
        self._opened += 1
        number = (self.members.index(origin) + 1 << 56) + self._opened
        timeout = min(max(wanted, SHORTEST), LONGEST)
        self.sessions[number] = session = Session(timeout, origin)
        self._renew(session)
        self._commit(Entry({}))
        return number, round(timeout * 1000)

    def _close(self, session: int) -> bool:
        del self.sessions[session]
        self._commit(Entry(self.tree.closed(session), closes=session))
        return True

    def _commit(self, entry: Entry) -> None:
        self.tree.apply(entry.change)
        self.log.append(entry)
        for each in self.members:
            self._send(each, each.catch_up)

    def _reply(self, origin: Member, done: Receive, reply: Any) -> None:
        self._send(origin, lambda zxid: done(reply))

    def _send(self, member: Member, receive: Callable[[int], None]) -> None:
        """The leader sends something, behind all that was carried out so far."""
        action = partial(receive, len(self.log))
        if member is self.leader:
            action()
        elif member.term == self.term:
            link = member.link
            link.to_client(lambda: member.in_turn(link, action))

    def _beat(self) -> None:
        """Twice a tick, by the leader's clock."""
        self._supervise()
        term = self.term
        leader = self.leader
        if leader is not None:
            leader.in_turn(self._pulse, partial(self._expire, self.term))
            later = self._timeline.now + self._phase
            self._timeline.at(later, lambda: leader.in_turn(self._pulse, partial(self._ask, term)))
        clock = leader.clock if leader is not None else self.members[0].clock
        half = TICK / 2
        self._timeline.at(clock.true((clock() + half / 100) // half * half + half), self._beat)

    def _expire(self, term: int) -> None:
        """The leader ends sessions."""
        if term == self.term and self.has_quorum:
            for number, session in list(self.sessions.items()):
                if session.ends_at <= self._clock() + PRECISION:
                    self._close(number)
            self._proceed()

    def _ask(self, term: int) -> None:
        if term == self.term:
            for each in self.members:
                self._send(each, each.report)

    def _supervise(self) -> None:
        """Servers without a leader stop answering; a majority elects another one."""
        for each in self.members:
            each.check_contact()
        if self.leader is not None and self.leader.silence > SYNC_LIMIT:
            self.leader, self.term = None, self.term + 1
        for each in self.members:
            if each.serving and not each.frozen and each.term != self.term:
                each.leave()
        if self.leader is None and self._timeline.random.random() < 0.5:
            self._elect()
        for each in self.members:
            if each.is_well and not each.serving and self.leader is not None:
                each.join(self.term, self.link())

    def _elect(self) -> None:
        well = [each for each in self.members if each.is_well]
        if 2 * len(well) <= len(self.members):
            return
        random = self._timeline.random
        self.leader, self.term = random.choice(well), self.term + 1
        self._phase = random.uniform(0, TICK / 2)
        proposals, self._proposals = list(self._proposals), deque()
        for proposal in proposals[: random.randint(0, len(proposals))]:
            self._perform(proposal)
        for session in self.sessions.values():
            self._renew(session)
        for each in well:
            each.join(self.term, self.link())
