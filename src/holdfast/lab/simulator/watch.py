"""What must hold at every instant of a run, looked at from outside: with the true time, and with
the data of every node. It finds what is wrong before anybody suffers from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.attempt import holder_of
from holdfast.core.lease_state import LeaseState
from holdfast.core.messages import OFFER, Acquire, Extend, Repair
from holdfast.core.records import LeaseInfo
from holdfast.engines.redis.keys import keys_of
from holdfast.lab.simulator.client import Client
from holdfast.lab.simulator.mischief import Mischief
from holdfast.lab.simulator.plan import Plan
from holdfast.lab.simulator.record import Record
from holdfast.lab.simulator.server import Server
from holdfast.lab.simulator.work import Turn

PRECISION = 1e-6
TELL_WITHIN = 0.02
"""How late a holder may be told that its time is over."""

SOON = OFFER + 0.2
"""How long a free lock may stay free while somebody waits for it, and all is well: one offer may be
made to somebody who waits no more, and could not say so."""

IN_TIME = 2.5
"""How much later than its timeout an acquire may return, whatever happens: connections, last words
and pauses each have a time of their own."""

JUST_NOW = 0.1
"""How long ago nodes may have been asked."""

TIDY_AFTER = 0.3
"""How soon after a turn nothing of it may be left on a node that has answered everything."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What is watched."""

    plan: Plan
    record: Record
    servers: Sequence[Server]
    clients: Sequence[Client]
    mischief: Mischief


class Watch:
    """Looks on, and tells what is wrong."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self._record, self._timeline = scene, scene.record, scene.record.timeline
        self._told: set[str] = set()
        self._ended: set[str] = set()
        self._breaks: dict[str, list[tuple[int, int]]] = {}
        self._free_since: dict[str, float] = {}
        self._sent_at: dict[tuple[str, type], float] = {}

    def asked(self, turn: Turn) -> None:
        """Keep in mind which connections there were."""
        lines = turn.client.store.lines
        runs = (server.run for server in self._scene.servers)
        self._breaks[turn.hold] = [
            (line.breaks, run) for line, run in zip(lines, runs, strict=True)
        ]

    def sent(self, client: Client, kind: type) -> None:
        """Keep in mind when something was last asked."""
        self._sent_at[client.name, kind] = self._timeline.now

    def refused(self, turn: Turn, why: str) -> None:
        """In time, not without a reason, and leaving nothing behind."""
        now, client, timeout = self._timeline.now, turn.client, turn.section.timeout
        if timeout is not None and client.resumed_at < turn.asked_at and not client.paused:
            late = now - turn.asked_at - timeout * 1.02
            if late > IN_TIME:
                self._find("in time", f"gave up {late:.3f} s late", client.name)
        hasty = bool(timeout)  # the last try may have had no time to be answered
        if why == "unavailable" and not hasty and self._is_calm(turn.asked_at):
            self._find("no refusal for nothing", "all nodes were well", client.name)
        self._tidy_later(turn)

    def granted(self, turn: Turn, tenure: LeaseState, until: float) -> None:
        """Backed by a quorum, with a fence that a quorum knows, and without undue delay."""
        now, name = self._timeline.now, turn.section.name
        began = self._sent_at[turn.client.name, Acquire]
        self._backed(turn.client, tenure, until, began)
        known = sum(
            self._knows(server, tenure) or server.forgot_at >= began
            for server in self._scene.servers
        )
        if known < self._scene.plan.quorum:
            text = f"only {known} nodes know the fence {tenure.fence}"
            self._find("a fence is a quorum's", text, turn.client.name)
        since = max(turn.asked_at, self._free_since.get(name, 0.0))
        if now - since > SOON and self._is_calm(since):
            self._find("no free lock waits", f"free for {now - since:.3f} s", turn.client.name)
        self._tell_by(turn.client, turn.hold, until)

    def extended(
        self, client: Client, hold: str, tenure: LeaseState, before: float, until: float
    ) -> None:
        """Backed by a quorum, and not after its end."""
        now = self._timeline.now
        if now > before + PRECISION:
            late = now - before
            self._find("no way back", f"extended {late:.4f} s after its end", client.name)
        if until < before - PRECISION:
            self._find("no lease is shortened", f"by {before - until:.4f} s", client.name)
        self._backed(client, tenure, until, self._sent_at[client.name, Extend])
        self._tell_by(client, hold, until)

    def repairs(self, client: Client, repair: Repair) -> None:
        """Only what a quorum has just said to be the holder's is put back on the other nodes."""
        if all(tenure.holder != repair.holder for tenure in client.leases.values()):
            self._find("what was given back stays so", f"{repair.holder} repairs it", client.name)
            return
        lock, now = keys_of(repair.key).lock, self._timeline.now
        having = sum(
            server.data.get(lock) == repair.holder.encode() or now - server.forgot_at < JUST_NOW
            for server in self._scene.servers
        )
        if having < self._scene.plan.quorum:
            text = f"{repair.holder} repairs what only {having} nodes have"
            self._find("a repair is a quorum's", text, client.name)

    def told(self, turn: Turn) -> None:
        """Somebody is told of a loss, which has a reason."""
        self._told.add(turn.hold)
        self._free_since[turn.section.name] = self._timeline.now
        section = turn.section
        if section.renew and section.max_hold is None and self._is_calm(self._timeline.now):
            self._find("no loss for nothing", "all nodes were well", turn.client.name)

    def was_told(self, hold: str) -> bool:
        """Whether its holder knows that it is lost."""
        return hold in self._told

    def leaving(self, turn: Turn) -> None:
        """The lock is free from here on: the next waiter may be granted it before the holder hears
        that its release was done."""
        self._free_since[turn.section.name] = self._timeline.now

    def left(self, turn: Turn) -> None:
        """Leaving nothing behind."""
        self._ended.add(turn.hold)
        self._free_since[turn.section.name] = self._timeline.now
        self._tidy_later(turn)

    def looked(self, turn: Turn, tenure: LeaseState, found: LeaseInfo | None) -> None:
        """Whoever holds the lock is the one who is said to, where no node has forgotten it."""
        if not self._is_calm(self._timeline.now):
            return
        if found is None or found.holder != tenure.holder:
            text = f"held by {tenure.holder}, and said to be held by {found and found.holder}"
            self._find("the holder is known", text, turn.client.name)
        elif found.fence != tenure.fence:
            text = f"the fence is {tenure.fence}, and said to be {found.fence}"
            self._find("the holder is known", text, turn.client.name)

    def working(self) -> list[Client]:
        """Who is still doing something."""
        return [
            client
            for client in self._scene.clients
            if not client.crashed
            and any(process not in client.loops.values() for process in client.processes)
        ]

    def nobody_works_on(self) -> None:
        """All has healed, and there was time enough."""
        for client in self.working():
            self._find("everybody comes to an end", "still waiting or working", client.name)

    def probed(self, client: Client, name: str) -> None:
        """A newcomer has got the lock."""
        granted = [hold for hold in self._record.history.holds() if hold.who == client.name]
        if not any(hold.name == name and hold.granted is not None for hold in granted):
            self._find("a healed lock can be had", f"{name} was not granted", client.name)

    def nothing_is_left(self) -> None:
        """No lock on any node, nobody who waits, no renewer that died."""
        for server in self._scene.servers:
            for key in server.data.present():
                if not key.startswith(b"{"):
                    holder = (server.data.get(key) or b"").decode()
                    self._find("nothing is left behind", f"{server.name}: {holder}", server.name)
        for client in self._scene.clients:
            if client.crashed:
                continue
            for loop, process in client.loops.items():
                if process.error is not None:
                    self._find("no defects", f"the {loop} is dead", client.name)
            for waiter_id in client.notifications:
                if waiter_id not in client.loops:
                    self._find("nothing is left behind", f"a waiter: {waiter_id}", client.name)

    def _backed(self, client: Client, tenure: LeaseState, until: float, began: float) -> None:
        """A quorum of nodes keep the lease for as long as its holder believes in it: nodes that had
        a vote when they were asked. What they forget after that, the guard sees to."""
        backing = sum(
            server.forgot_at >= began
            or (self._backs(server, tenure, until) and not self._may_have_forgotten(server))
            for server in self._scene.servers
        )
        if tenure.valid_until > tenure.hold_until + PRECISION:
            self._find("max_hold ends a lease", f"until {until:.4f}", client.name)
        if backing < self._scene.plan.quorum:
            text = f"until {until:.4f}, which only {backing} nodes back"
            self._find("a lease is a quorum's", text, client.name)

    def _backs(self, server: Server, tenure: LeaseState, until: float) -> bool:
        lock = keys_of(tenure.spec.key).lock
        if server.data.get(lock) != tenure.holder.encode():
            return False
        return server.clock.true(server.data.ends_at(lock)) >= until - PRECISION

    def _knows(self, server: Server, tenure: LeaseState) -> bool:
        keys = keys_of(tenure.spec.key)
        mine = server.data.get(keys.lock) == tenure.holder.encode()
        return mine and server.data.get(keys.fence) == b"%d" % tenure.fence

    def _may_have_forgotten(self, server: Server) -> bool:
        """Whether it restarted so lately that a lease which it forgot may still be valid."""
        young = self._timeline.now - server.forgot_at < self._scene.plan.max_ttl
        return young and self._scene.plan.guard

    def _tell_by(self, client: Client, hold: str, until: float) -> None:
        """See to it that the holder is told when its time is over, if it is not extended."""

        def look() -> None:
            over = client.beliefs.get(hold, until + 1) <= until + PRECISION
            recovered = self._timeline.now - client.resumed_at > 2 * TELL_WITHIN
            if over and hold not in self._told and not client.crashed and not client.paused:
                if recovered:
                    self._find("told in time", f"{hold} is over, and not told", client.name)
                else:
                    self._timeline.at(self._timeline.now + 3 * TELL_WITHIN, look)

        self._timeline.at(until + TELL_WITHIN, look)

    def _tidy_later(self, turn: Turn) -> None:
        self._timeline.at(self._timeline.now + TIDY_AFTER, lambda: self._tidy(turn))

    def _tidy(self, turn: Turn) -> None:
        """Nothing of a turn that is over may be left where every message was answered."""
        if turn.client.crashed:
            return
        later = False
        for index, (breaks, run) in enumerate(self._breaks[turn.hold]):
            line, server = turn.client.store.lines[index], self._scene.servers[index]
            if line.breaks != breaks or server.run != run:
                continue  # what was left there ends by itself
            if not line.is_idle:
                later = True
                continue
            self._clean(turn, server)
        if later:
            self._tidy_later(turn)

    def _clean(self, turn: Turn, server: Server) -> None:
        keys = keys_of(turn.spec.key)
        mine = turn.holder.encode()
        if holder_of((server.data.get(keys.lock) or b"").decode()) == turn.holder:
            self._find("nothing is left behind", f"{server.name}: {turn.holder}", server.name)
        if any(member.endswith(b" " + mine) for member in server.data.zrange(keys.queue)):
            self._find(
                "nothing is left behind", f"{server.name}: a place in the queue", server.name
            )

    def _is_calm(self, since: float) -> bool:
        """Whether nothing had gone wrong for as long as anything is felt."""
        scene = self._scene
        felt = scene.mischief.unrest_until + scene.plan.max_ttl * 1.2
        return scene.plan.tail == 0 and since > felt

    def _find(self, rule: str, text: str, *who: str) -> None:
        self._record.find(rule, text, *who)
