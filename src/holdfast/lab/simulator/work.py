"""What the tasks of a client do: take locks, work under them, write down what they believe."""

from typing import Protocol

from holdfast.core.acquire import acquire
from holdfast.core.effects import Sleep, Steps
from holdfast.core.holding import extend
from holdfast.core.lease_state import LeaseState, LockSpec, node_timeout
from holdfast.core.queries import inspect
from holdfast.core.records import LeaseInfo
from holdfast.core.release import begin_leave, deliver, finish_leave
from holdfast.engines.redis import quorum_node_timeout
from holdfast.errors import EngineUnavailable, LockError, LockLost, NotHeld
from holdfast.lab.simulator.client import Client
from holdfast.lab.simulator.plan import Section, Task
from holdfast.lab.simulator.record import Record
from holdfast.lab.simulator.server import Server
from holdfast.lab.virtual import CancelledError

RETRY = 0.1


class Stage(Protocol):
    """What is told of every step: the run, which writes it down and judges it."""

    record: Record
    servers: list[Server]
    closing: bool

    def new_hold(self, client: Client) -> str:
        """A name for an acquisition."""
        ...

    def asked(self, turn: "Turn") -> None:
        """A client asks for a lock."""
        ...

    def refused(self, turn: "Turn", why: str) -> None:
        """It does not get it."""
        ...

    def granted(self, turn: "Turn", tenure: LeaseState) -> None:
        """It gets it."""
        ...

    def leaving(self, turn: "Turn", tenure: LeaseState) -> None:
        """It begins to release it."""
        ...

    def left(self, turn: "Turn", *, lost: bool) -> None:
        """It has released it, or learned of its loss."""
        ...

    def looked(self, turn: "Turn", tenure: LeaseState, found: LeaseInfo | None) -> None:
        """It has asked who holds the lock that it holds."""
        ...

    def note(self, turn: "Turn", text: str) -> None:
        """Something worth a line."""
        ...

    def write(self, turn: "Turn", tenure: LeaseState) -> None:
        """It writes to the registers, believing that it holds the lock."""
        ...


def claim_of(section: Section, nodes: int) -> LockSpec:
    """What a `Lock` would ask for."""
    request_timeout = node_timeout(section.ttl) if nodes == 1 else quorum_node_timeout(section.ttl)
    return LockSpec(
        name=section.name,
        prefix="",
        ttl=section.ttl,
        renew=section.renew,
        max_hold=section.max_hold,
        retry=RETRY,
        request_timeout=request_timeout,
    )


def work_through(stage: Stage, client: Client, task: Task) -> Steps[None]:
    """Do one section after the other, until everything is to end."""
    for section in task.sections:
        yield Sleep(client.clock() + section.rest)
        if stage.closing:
            return
        yield from Turn(stage, client, section).take()


class Turn:
    """One section under way."""

    def __init__(self, stage: Stage, client: Client, section: Section) -> None:
        self._stage = stage
        self.client = client
        self.section = section
        self.spec = claim_of(section, len(stage.servers))
        self.hold = stage.new_hold(client)
        self.asked_at = stage.record.timeline.now
        self.holder = client.next_holder()

    def take(self) -> Steps[None]:
        """Take the lock, and if it is granted, work."""
        client, stage = self.client, self._stage
        stage.asked(self)
        holder = client.runtime.new_holder()
        try:
            tenure = yield from acquire(client.runtime, self.spec, holder, self.section.timeout)
        except EngineUnavailable:
            stage.refused(self, "unavailable")
            return
        except CancelledError:
            # As the drivers do after an interruption: try once to deliver the release.
            yield from deliver(client.runtime, self.spec, holder)
            stage.refused(self, "cancelled")
            raise
        if tenure is None:
            stage.refused(self, "held")
            return
        stage.granted(self, tenure)
        error: BaseException | None = None
        try:
            yield from self._work(tenure)
        except CancelledError as cancelled:
            error = cancelled
        yield from self._leave(tenure, error)
        if error is not None:
            raise error

    def _work(self, tenure: LeaseState) -> Steps[None]:
        half = self.section.work / 2
        self._stage.write(self, tenure)
        yield Sleep(self.client.clock() + half)
        if self.section.extend_to is not None:
            yield from self._extend(tenure, self.section.extend_to)
        if self.section.looks:
            yield from self._look(tenure)
        yield Sleep(self.client.clock() + half)
        self._stage.write(self, tenure)

    def _extend(self, tenure: LeaseState, ttl: float) -> Steps[None]:
        try:
            yield from extend(self.client.runtime, tenure, ttl)
        except LockError:
            return  # it is lost, or still what it was
        now = self.client.clock()
        if not tenure.is_held(now):
            self._stage.record.find("honest loss", "extended, and not held", self.client.name)

    def _look(self, tenure: LeaseState) -> Steps[None]:
        """Ask who holds the lock. Whoever holds it all the time is told its own name."""
        runtime, began = self.client.runtime, tenure.is_held(self.client.clock())
        try:
            found = yield from inspect(runtime, "", self.section.name)
        except EngineUnavailable:
            return
        if began and tenure.is_held(self.client.clock()):
            self._stage.looked(self, tenure, found)

    def _leave(self, tenure: LeaseState, error: BaseException | None) -> Steps[None]:
        stage, client = self._stage, self.client
        stage.leaving(self, tenure)
        was_lost = tenure.is_lost(client.clock())
        told = False
        try:
            if begin_leave(client.runtime, tenure, error):
                yield from finish_leave(client.runtime, tenure, error)
        except LockLost:
            told = True
        except EngineUnavailable as unavailable:
            stage.note(self, str(unavailable))  # it ends by itself, and its holder was told so
        except NotHeld as wrong:
            client.fails(wrong)
        except CancelledError:
            yield from deliver(client.runtime, self.spec, tenure.holder)
            stage.left(self, lost=was_lost)
            raise
        if was_lost and not told and error is None:
            stage.record.find("honest loss", "left a lost lease without a word", client.name)
        stage.left(self, lost=told or was_lost)
