"""Writes the history of a run, and checks at every step what must hold.

It sees the true time and the data of every node, so it finds what is wrong before a client could.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from functools import partial
from itertools import count
from math import inf
from typing import Any

from holdfast.core.lease_state import TAKEN, LeaseState, LockSpec
from holdfast.core.messages import OFFER, Acquire, Extend, Release, ToNode, holder_of
from holdfast.lab.history import Kind
from holdfast.lab.simulator.client import Client
from holdfast.lab.simulator.faults import FaultInjector
from holdfast.lab.simulator.plan import Plan, Section
from holdfast.lab.simulator.server import PRECISION, BaseServer
from holdfast.lab.simulator.store import SimulatedEngine, engine

RETRY = 0.1


class Turn:
    """One section in progress."""

    def __init__(
        self, client: Client, section: Section, simulated: SimulatedEngine, number: int
    ) -> None:
        self.client, self.section = client, section
        links = client.store.connections
        self.spec = LockSpec(
            key=section.name,
            prefix="",
            ttl=section.ttl,
            renew=section.renew,
            max_hold=section.max_hold,
            retry=RETRY,
            request_timeout=simulated.request_timeout(section.ttl, len(links)),
            shares=section.shares,
        )
        self.hold = f"{client.name}#{number}"
        self.asked_at = client.timeline.now
        self.holder = self.attempt = client.next_holder()
        """Its holder id, and that of its lease: over a quorum, that of an attempt."""
        self.breaks = [(link.breaks, link.server.run) for link in links]
        """For each node, how often the connection to it had broken when the turn began, and which
        of its runs it was."""
        self.refused = [link.server.refused for link in links]
        """For each node, how many requests it had answered with an error."""
        self.until = inf
        """The end of its lease, as of the last step."""
        self.began = inf
        """When what its lease rests on was sent: the acquire, or the last extension."""
        self.counts_from = inf
        """When its client asked for that, which may have taken more than one exchange."""
        self.is_backed = True
        self.knows_loss = False
        """Whether its client has learned of a loss."""
        self.ended_at = inf


LEFT_BEHIND = "lock left behind"

TIDY_AFTER = 0.3
"""How soon after a turn nothing of it may be left on a node that has answered everything."""


SOON = OFFER + 0.2
"""How long a free lock may stay free while a client waits for it, without faults: one offer may be
made to a waiter that has given up, and could not report it."""

IN_TIME = 2.5
"""How much later than its timeout an acquire may return, whatever happens: connections, releases
and pauses each have a time of their own."""

TRIES = 2.5
"""The same in request timeouts: a try takes one at most, and so does a release when cancelled."""

QUEUED = 0.1
"""How soon a client that asks for a lock is in its queue, without faults."""

MOST_TRIES = 100
"""How often one caller may ask for a lock within a second. (Over a quorum more often: rivals that
split a vote try again at once.)"""


class Observer:
    """Gets every step of every client."""

    def __init__(self, plan: Plan, run: FaultInjector) -> None:
        self._plan, self._run, self._record = plan, run, run.record
        self._timeline, self._engine = run.record.timeline, engine(plan.engine)
        self._servers, self._quorum, self.find = run.servers, plan.quorum, run.record.find
        self._waiting: dict[Turn, None] = {}
        """The turns whose acquire has not returned."""
        self._holding: dict[Turn, LeaseState] = {}
        """Those that have a lease."""
        self._numbers = count(1)
        self.closing = False
        """Whether tasks stop before their next section."""
        self._free_since: dict[str, float] = {}
        """By lock, when it was last released or lost."""
        self._sent_at: dict[tuple[str, type], float] = {}
        """By holder and kind of request, when it was last sent."""
        self._released: set[str] = set()
        """Holders for which a release was sent."""
        self._tries: dict[str, deque[float]] = defaultdict(partial(deque, maxlen=MOST_TRIES))
        """By holder, when it has asked for its lock lately."""

    def asked(self, client: Client, section: Section) -> Turn:
        """A client asks for a lock."""
        turn = Turn(client, section, self._engine, next(self._numbers))
        self.add(turn, Kind.ASKED)
        self._waiting[turn] = None
        return turn

    def sent(self, client: Client, requests: Sequence[ToNode]) -> None:
        """A client sends requests. Remember when; check that no waiter is busy."""
        kind, plan = type(requests[0]), self._plan
        self._record.sent(kind.__name__, client.number)
        for request in requests:
            if isinstance(request, (Acquire, Extend)):
                self._sent_at[holder_of(request.holder), kind] = self._timeline.now
            if isinstance(request, Release):
                self._released.add(request.holder)
                self._gives_up(request.holder)
            elif isinstance(request, Acquire) and (plan.quorum == 1 or self._engine.fair):
                self._check_pace(client, request)

    def _check_pace(self, client: Client, request: Acquire) -> None:
        """A caller that waits does not ask on and on."""
        tries = self._tries[request.holder]
        tries.append(self._timeline.now)
        took = tries[-1] - tries[0]
        if len(tries) == MOST_TRIES and took < 1.0:
            self.find("waits busily", f"asked {MOST_TRIES} times in {took:.3f} s", client.name)
            tries.clear()

    def _gives_up(self, holder: str) -> None:
        """A waiter leaves the queue: those behind it may be of the present holders' kind."""
        if self._plan.shared:
            for turn in self._waiting:
                if turn.holder == holder:
                    self._free_since[turn.section.name] = self._timeline.now

    def interrupted(self, turn: Turn) -> None:
        """A client was cancelled. It tries to deliver the release, which expires a ttl from now."""
        turn.ended_at = min(turn.ended_at, self._timeline.now)

    def refused(self, turn: Turn, why: str) -> None:
        """In time, not without a reason, and leaving nothing behind."""
        del self._waiting[turn]
        self.add(turn, Kind.REFUSED, note=why)
        now, client, timeout = self._timeline.now, turn.client, turn.section.timeout
        if timeout is not None and client.resumed_at < turn.asked_at and not client.pauses:
            late = now - turn.asked_at - timeout * 1.02
            if late > max(IN_TIME, TRIES * turn.spec.request_timeout):
                self.find("acquire returned late", f"gave up {late:.3f} s late", client.name)
        hasty = bool(timeout)  # the last try may have had no time to be answered
        if why == "unavailable" and not hasty and self._is_calm(turn.asked_at):
            self.find("refused for no reason", "all nodes were well", client.name)
        self._check_later(turn)

    def granted(self, turn: Turn, lease: LeaseState) -> None:
        """Backed by a quorum, with a fence that a quorum knows, in turn, without undue delay."""
        del self._waiting[turn]
        self._holding[turn] = lease
        turn.attempt, turn.until = lease.holder, turn.client.own_clock.true(lease.valid_until)
        lease.callbacks = (lambda: self._lost(turn, lease),)
        self._check_grant(turn, lease)
        shares = None if lease.spec.shares == 1 else lease.spec.shares
        self.add(turn, Kind.GRANTED, fence=lease.fence, until=turn.until, shares=shares)

    def _check_grant(self, turn: Turn, lease: LeaseState) -> None:
        now, name = self._timeline.now, turn.section.name
        turn.began = began = self._sent_at[turn.holder, Acquire]
        turn.counts_from = turn.client.asked_at[turn.holder, Acquire]
        self._check_backing(turn, lease)
        known = sum(server.knows(lease) or server.lost_data_at >= began for server in self._servers)
        if known < self._quorum and not self._may_be_broken(turn):
            text = f"only {known} nodes know the fence {lease.fence}"
            self.find("fence without a quorum", text, turn.client.name)
        since = max(turn.asked_at, self._free_since.get(name, 0.0))
        # A lease that a clock lengthened may be met, and counted anew, at any later time.
        soon = SOON + self._run.set_back
        if now - since > soon and self._is_calm(since):
            self.find("free lock not granted", f"free for {now - since:.3f} s", turn.client.name)
        if self._engine.fair:
            self._check_order(turn)

    def _check_order(self, turn: Turn) -> None:
        """First in, first out."""
        for other in self._waiting:
            first = other.asked_at + QUEUED < turn.asked_at and self._is_calm(other.asked_at)
            waits = other.holder in other.client.notifications  # it has not crashed, for one
            waits = waits and other.holder not in self._released
            rival = waits and other.section.name == turn.section.name
            if first and rival and not self._comes_along(turn, other):
                text = f"granted before {other.hold}, which asked before"
                self.find("waiter overtaken", text, turn.client.name, other.client.name)

    def _comes_along(self, turn: Turn, other: Turn) -> bool:
        """Whether one that waits has its share already, and has yet to learn of it."""
        shares, key = turn.section.shares, turn.spec.key
        alike = shares != 1 and other.section.shares == shares
        return alike and any(each.has_turn(key, other.holder) for each in self._servers)

    def look_at(self, client: Client) -> None:
        """Check the leases of a client, and whether it has extended them since the last step."""
        for turn, lease in self._holding.items():
            if turn.client is not client:
                continue
            until = client.own_clock.true(lease.valid_until)
            before, turn.until = turn.until, until
            if abs(until - before) > 1e-9:
                self._check_extension(turn, lease, before)
                self.add(turn, Kind.EXTENDED, until=until)
            if lease.is_held(client.clock()):
                self._check_backing(turn, lease)

    def _check_extension(self, turn: Turn, lease: LeaseState, before: float) -> None:
        """Not after its end, and never to an earlier one."""
        late, who = self._timeline.now - before, turn.client.name
        if late > PRECISION:
            self.find("extended after its end", f"extended {late:.4f} s after its end", who)
        if turn.until < before - PRECISION:
            self.find("lease shortened", f"by {before - turn.until:.4f} s", who)
        turn.began = self._sent_at[turn.holder, Extend]
        turn.counts_from = turn.client.asked_at[turn.holder, Extend]

    def _lost(self, turn: Turn, lease: LeaseState) -> None:
        """A holder learns of a loss, which must have a reason."""
        turn.knows_loss = True
        turn.ended_at = self._timeline.now  # its release begins now, while the holder works on
        self._free_since[turn.section.name] = self._timeline.now + self._engine.lingers
        section, knowing = turn.section, sum(each.knows(lease) for each in self._servers)
        if section.renew and section.max_hold is None and self._is_calm(self._timeline.now):
            self.find("lost for no reason", "all nodes were well", turn.client.name)
        elif lease.why == TAKEN and knowing >= self._quorum and not self._may_be_broken(turn):
            self.find("lost for no reason", "a quorum of nodes still has it", turn.client.name)
        self.add(turn, Kind.LOST)

    def leaving(self, turn: Turn, lease: LeaseState) -> None:
        """The lock is free from here on: the next waiter may be granted it before the holder learns
        that its release was done."""
        self._free_since[turn.section.name] = self._timeline.now
        del self._holding[turn]
        if lease.valid_until > lease.hold_until + PRECISION:
            self.find("held past max_hold", f"until {turn.until:.4f}", turn.client.name)
        if lease.is_held(turn.client.clock()):
            self.add(turn, Kind.RELEASING)

    def left(self, turn: Turn, lease: LeaseState, *, lost: bool) -> None:
        """A client has released the lock, or learned of its loss; it leaves nothing behind."""
        if lost and not turn.knows_loss:
            self._lost(turn, lease)
        if not lost:
            self.add(turn, Kind.RELEASED)
        self._free_since[turn.section.name] = self._timeline.now
        self._check_later(turn)

    def working(self) -> list[Client]:
        """The clients that still run a task."""
        return [client for client in self._run.clients if not client.crashed and client.tasks]

    def check_all_ended(self) -> None:
        """All has healed, and there was time enough."""
        for client in self.working():
            self.find("client stuck", "still waiting or working", client.name)

    def probed(self, client: Client, name: str) -> None:
        """A new client has got the lock."""
        granted = [hold for hold in self._record.history.holds() if hold.who == client.name]
        if not any(hold.name == name and hold.granted is not None for hold in granted):
            self.find("lock unavailable after healing", f"{name} was not granted", client.name)

    def check_leftovers(self) -> None:
        """At the end: no lock on any node, no waiter, no renewer that failed."""
        for server in self._servers:
            for left in server.leftovers():
                self.find(LEFT_BEHIND, f"{server.name}: {left}", server.name)
        for client in self._run.clients:
            if client.crashed:
                continue
            for loop, process in client.loops.items():
                if process.error is not None:
                    self.find("internal error", f"the {loop} is dead", client.name)
            for waiter_id in client.notifications:
                if waiter_id not in client.loops:
                    self.find(LEFT_BEHIND, f"a waiter: {waiter_id}", client.name)

    def _check_later(self, turn: Turn) -> None:
        """Check the nodes soon after a turn."""
        turn.ended_at = min(turn.ended_at, self._timeline.now)
        self._timeline.at(self._timeline.now + TIDY_AFTER, lambda: self._check_tidy(turn))

    def _check_tidy(self, turn: Turn) -> None:
        """Nothing may be left on a node that has answered every message of the turn. Over a quorum,
        a minority may have refused to release the lock: there it expires."""
        stopped_for_ttl = turn.client.resumed_at >= turn.ended_at + turn.spec.ttl
        if turn.client.crashed or stopped_for_ttl:  # its release was given up
            return
        if turn.client.runtime.pending.find(turn.attempt) is not None:
            # Its release is behind another one, which waits for nodes that do not answer.
            if self._timeline.now < turn.ended_at + turn.spec.ttl - TIDY_AFTER:
                self._check_later(turn)
            return  # else it is not sent again, and expires
        later, refused = False, dict[str, str]()  # what is left, by node
        links = turn.client.store.connections
        breaks = [(link.breaks, link.server.run) for link in links]
        if breaks != turn.breaks and self._plan.engine != "redis":
            return  # the servers have the same data: what was left by way of one expires on all
        for index, link in enumerate(links):
            server = link.server
            if breaks[index] != turn.breaks[index]:
                continue  # what was left there expires
            if not link.is_idle:
                later = True
                continue
            for left in server.remains(turn.spec.key, turn.holder):
                what = left.holder if left.has_turn else "a place in the queue"
                if server.refused == turn.refused[index]:
                    self.find(LEFT_BEHIND, f"{server.name}: {what}", server.name)
                else:
                    refused[server.name] = what
        # By then it has expired.
        given_up = self._timeline.now >= turn.ended_at + turn.spec.ttl - turn.spec.request_timeout
        if len(refused) >= self._quorum and not given_up:
            self.find(LEFT_BEHIND, ", ".join(f"{name}: {what}" for name, what in refused.items()))
        if later:
            self._check_later(turn)

    def _check_backing(self, turn: Turn, lease: LeaseState) -> None:
        """A quorum of nodes keep the lease for as long as its holder believes in it: nodes that had
        a vote when they were asked. What they lose after that is the restart guard's task."""
        if not turn.is_backed or self._may_be_broken(turn):
            return
        backing = sum(
            server.lost_data_at >= turn.began
            or (server.backs(lease, turn.until) and not self._may_have_lost(server))
            for server in self._servers
        )
        if backing < self._quorum:
            turn.is_backed = False
            text = f"until {turn.until:.4f}, which only {backing} nodes back"
            self.find("lease without a quorum", text, turn.client.name)

    def _may_have_lost(self, server: BaseServer) -> bool:
        """Whether it restarted so recently that a lease which it lost may still be valid."""
        young = self._timeline.now - server.lost_data_at < self._plan.max_ttl
        return young and self._plan.guard

    def _may_be_broken(self, turn: Turn) -> bool:
        """Whether an operator may have broken the lock since its holder last asked for it."""
        run, now = self._run, self._timeline.now
        if run.broken_until == inf and self._is_undisturbed(now):
            run.broken_until = now  # what had no answer was carried out by now, or is lost
        return bool(run.breaking) or turn.counts_from <= run.broken_until

    def _is_calm(self, since: float) -> bool:
        """Whether no fault can have had an effect since that instant."""
        return self._plan.tail == 0 and self._is_undisturbed(since)

    def _is_undisturbed(self, since: float) -> bool:
        """The same, but for messages that are late all the time."""
        return since > self._run.disturbed_until + self._plan.max_ttl * 1.2

    def add(self, turn: Turn, kind: Kind, **details: Any) -> None:
        """Something happens to a lock."""
        client, name, hold = turn.client, turn.section.name, turn.hold
        number = client.number
        self._record.add(client.name, kind, number=number, name=name, hold=hold, **details)
