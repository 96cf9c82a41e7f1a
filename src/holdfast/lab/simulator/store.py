"""The store of a client over virtual servers, whatever the engine: its links to the servers, and
its activities, each a generator that waits and goes on. At the end, what differs from engine to
engine.

Every other client is cancelled as a thread is: what it asks ends at once. With the rest it goes on,
as under asyncio, and the next request for the same holder waits for it.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import inf
from typing import Any, TypeAlias

from holdfast.core.effects import Sleep
from holdfast.core.holding import lose
from holdfast.core.messages import Acquire, Failed, Release, Request
from holdfast.core.ports import StoreHost, node_timeout
from holdfast.engines.offload import GRACE
from holdfast.lab.simulator.client import Client
from holdfast.lab.simulator.driver import Process, Resumption
from holdfast.lab.simulator.network import Connection, Network
from holdfast.lab.simulator.server import BaseServer
from holdfast.options import nearest_ttl

UNANSWERED = "an earlier request of this holder is pending"

Resume: TypeAlias = Callable[[Any], None]

Waits: TypeAlias = Generator[Callable[[Resume], None], Any, Any]
"""An activity: it yields what is to call it back, and is sent what comes."""


class Activity(Process[Any]):
    """Something that a store does: it waits, and goes on with what comes, until it is over."""

    def __init__(
        self, client: Client, steps: Waits, interrupted: Callable[[], bool] = lambda: False
    ) -> None:
        super().__init__(steps, self._wait, self._over)
        self._client, self._interrupted = client, interrupted
        self._then: list[Resume] = []

    def then(self, action: Resume) -> None:
        """Call back with the result; with None if it was interrupted."""
        self._then.append(action)

    def stop_if_interrupted(self) -> None:
        """End it where it is, if its caller has stopped waiting."""
        if self._interrupted():
            self.crash()

    def _wait(self, wait: Callable[[Resume], None], resume: Resume) -> None:
        def go_on(value: Any) -> None:
            self.stop_if_interrupted()
            resume(value)

        try:
            wait(go_on)
        except Exception as error:  # noqa: BLE001 - an internal error, to be reported
            self._client.fails(error)
            self.crash()

    def _over(self, _: object) -> None:
        if self.error is not None:
            self._client.fails(self.error)
        for action in self._then:
            action(self.result)


@dataclass(frozen=True, slots=True)
class Scene:
    """What the stores of all clients have in common."""

    servers: Sequence[Any]
    network: Network
    max_ttl: float
    guard: bool


class Link:
    """The way from a client to one server."""

    def __init__(self, client: Client, scene: Scene, index: int) -> None:
        self.client, self.network = client, scene.network
        self.server = scene.servers[index]
        self.there, self.back = client.wires[index]
        self.open: dict[Any, None] = {}
        """The connections that are open."""
        self.breaks = 0
        """How often a reply did not come: each time, something may have been left behind."""

    @property
    def is_idle(self) -> bool:
        """Whether all that was sent has been answered."""
        raise NotImplementedError

    def reset(self, *, ghost: bool, late: float = 0.0) -> None:
        """What is open breaks; the client learns of it in a while. With `ghost`, what was sent is
        executed all the same, at once or late."""
        for each in list(self.open):
            each.reset(ghost=ghost, late=late or self.network.lateness())

    def connection(self, broken: Callable[[], None]) -> Connection:
        """A new connection; `broken` is called when the client learns that it is."""
        return Connection(self.network, self.there, self.back, self.client.arrives(broken))

    def send(self, connection: Connection, data: Any, received: Resume) -> None:
        """Send something to the server; `received` gets what the server sends back. What arrives
        first opens the connection, if the server is up."""

        def reply(message: Any) -> None:
            self.client.arrives(lambda: received(message))()

        def arrive() -> None:
            if connection.run or self.server.accept(connection):
                self.server.receive(connection, data, reply)
            else:
                connection.reset()

        connection.to_node(arrive)


class Store:
    """The store of a client, but for what it sends."""

    connections: Sequence[Link]
    """One for each server."""
    sends: tuple[type, ...] = ()
    """The effects of the engine's exchanges that send something."""

    def __init__(self, client: Client, node: str) -> None:
        self.client, self._clock, self._node = client, client.clock, node
        lose_leases = partial(lose, client.runtime)
        self.host = StoreHost(client.clock, self._notify, client.events.append, lose_leases)
        self._blocks = client.number % 2 == 0
        self._activities: list[Activity] = []
        self._latest: dict[str, Activity] = {}
        """By holder: the last that asks something for it."""

    def ask(self, requests: Sequence[Request], until: float, resume: Resumption) -> None:
        """Set a request going."""
        self.stop_interrupted()
        holders: list[str] = []
        if not self._blocks:
            holders = [each.holder for each in requests if isinstance(each, (Acquire, Release))]
            late = [Failed.at(self._node, UNANSWERED)] * len(requests)
            self.client.at(until + GRACE, lambda: resume(late))
        before = [self._latest[each] for each in holders if each in self._latest]
        steps = self._ask_after(before, requests, until)
        activity = Activity(self.client, steps, lambda: self._blocks and not resume.wanted)
        for holder in holders:
            self._latest[holder] = activity

        def answer(answers: Any) -> None:
            for holder in holders:
                if self._latest.get(holder) is activity:
                    del self._latest[holder]
            if answers is not None:
                resume(answers)

        activity.then(answer)
        self._start(activity)

    def stop_interrupted(self) -> None:
        """A real store notices a cancellation at once; here, before it matters."""
        for each in list(self._activities):
            each.stop_if_interrupted()

    def crash(self) -> None:
        """The client is dead: the kernel closes its connections."""
        for connection in self.connections:
            connection.reset(ghost=True)
        for each in list(self._activities):
            each.crash()

    def close(self) -> None:
        """The client closes its connections."""
        self.crash()

    def _ask(self, requests: Sequence[Request], until: float) -> Waits:
        """The activity that answers these requests."""
        raise NotImplementedError

    def _start(self, activity: Activity) -> None:
        self._activities.append(activity)
        activity.then(lambda result: self._activities.remove(activity))
        activity.begin()

    def _ask_after(
        self, before: Sequence[Activity], requests: Sequence[Request], until: float
    ) -> Waits:
        for each in before:
            if not each.done:
                yield partial(self._wait_for, each, until)
            if not each.done:
                return [Failed.at(self._node, UNANSWERED)] * len(requests)
        return (yield from self._ask(requests, until))

    def _drive(self, steps: Generator[Any, Any, Any], requests: Sequence[Request] = ()) -> Waits:
        """Perform the effects of an exchange; an error is thrown in. What is sent for `requests` is
        reported, since a fault may wait for it."""
        try:
            effect = next(steps)
            while True:
                if requests and isinstance(effect, self.sends):
                    self.client.sent(requests)
                if isinstance(effect, Sleep):
                    reply = yield partial(self._wait_until, effect.until)
                else:
                    try:
                        reply = yield partial(self._perform, effect)
                    finally:
                        self._stopped(effect)
                effect = steps.throw(reply) if isinstance(reply, Exception) else steps.send(reply)
        except StopIteration as stop:
            return stop.value
        finally:
            steps.close()

    def _perform(self, effect: Any, resume: Resume) -> None:
        """Perform an effect of the engine's exchanges."""
        raise NotImplementedError

    def _stopped(self, effect: Any) -> None:
        """An effect is over, or not waited for any more."""

    def _notify(self, holder: str) -> None:
        """Soon, as a real driver does: not in the middle of an exchange."""
        self.client.at(self._clock(), lambda: self.client.notify(holder))

    def _sleep(self, seconds: float, resume: Resume) -> None:
        self._wait_until(self._clock() + seconds, resume)

    def _wait_until(self, instant: float, resume: Resume) -> None:
        self.client.at(instant, lambda: resume(None))

    def _wait_for(self, before: Activity, until: float, resume: Resume) -> None:
        before.then(resume)
        self._wait_until(until, resume)


@dataclass(frozen=True, slots=True)
class SimulatedEngine:
    """What differs from engine to engine."""

    servers: type[BaseServer]
    store: Callable[[Client, Scene], Store]
    drift: Callable[[float], float]
    ttls: tuple[float, ...]
    min_ttl: float
    ttl_step: float = 0.0
    sizes: tuple[int, ...] = (1,)
    """How many servers there are."""
    seconds: float = 5.0
    """How long faults happen."""
    quorum_timeout: Callable[[float], float] = node_timeout
    """How long a client waits for one of several servers, by the ttl."""
    loses_data: bool = True
    """Whether one of several servers may restart without its data."""
    lengthens: float = inf
    """By how much longer, at most, a lease lasts when the clock of a server is set back; 0: servers
    do not go by a clock that can be set."""
    fair: bool = False
    """Whether waiters get the lock in the order of their arrival."""
    joins_at_once: frozenset[int] = frozenset()
    """With how many servers the first try asks for a place in the queue."""
    busy: float = 0.4
    """How likely it is that one more task shares a client."""
    lingers: float = 0.0
    """How long a lock may stay taken when its holder has learned of a loss."""

    @property
    def max_ttl(self) -> float:
        return max(self.ttls)

    def request_timeout(self, ttl: float, servers: int) -> float:
        """How long a client waits for one of so many servers."""
        return node_timeout(ttl) if servers == 1 else self.quorum_timeout(ttl)

    def ttl(self, wanted: float) -> float:
        """The nearest that is allowed."""
        return nearest_ttl(wanted, self.min_ttl, self.max_ttl, self.ttl_step)


def engine(name: str) -> SimulatedEngine:
    """The engine of that name; the libraries that it needs are imported now."""
    found: SimulatedEngine = import_module(f"holdfast.lab.simulator.{name}").ENGINE
    return found
