"""The way from a client to virtual servers: what `engines.redis.aio` is to real ones.

What is said, and what a reply means, is the engine's own: `Speech`, `Node`, `Owed`, `Fleet`. Only
the connections, and waiting, are virtual: one connection to each node, shared by all that a client
does.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from holdfast.core.fanout import FanOut, Pause
from holdfast.core.guard import RestartGuard
from holdfast.core.messages import Acquire, Answer, Extend, Request, ToNode
from holdfast.core.ports import StoreHost
from holdfast.core.quorum import Quorum
from holdfast.engines.redis.addresses import Address
from holdfast.engines.redis.nodes import SILENT, Fleet, Node, first_contact_until
from holdfast.engines.redis.speech import Speech
from holdfast.lab.simulator.clock import EPOCH
from holdfast.lab.simulator.ear import Ear
from holdfast.lab.simulator.line import Line
from holdfast.lab.simulator.network import Network, Wire
from holdfast.lab.simulator.server import Server
from holdfast.lab.virtual import Body, Resumption

KEEP = 3600.0
"""How long a counter outlives its lock."""


@dataclass(frozen=True, slots=True)
class Way:
    """What lies between a client and its nodes."""

    servers: Sequence[Server]
    network: Network
    there: Sequence[Wire]
    back: Sequence[Wire]
    drift: Callable[[float], float]
    max_ttl: float
    guard: bool
    sent: Callable[[Sequence[ToNode]], None]
    """Told of all requests that go out."""


class Store:
    """One server, or a quorum of several."""

    def __init__(self, client: "Owner", way: Way) -> None:
        self.client = client
        around = StoreHost(
            client.clock, client.notify, client.events.append, hand_over=client.notify
        )
        self.fleet = _fleet(client, way, around)
        self.sent = way.sent
        parts = zip(self.fleet.nodes, way.servers, way.there, way.back, strict=True)
        wires = [(node, server, there, back) for node, server, there, back in parts]
        self.lines = [Line(client, way.network, *each) for each in wires]
        self.ears = [Ear(client, way.network, self.fleet, *each) for each in wires]
        self.fresh = True

    @property
    def size(self) -> int:
        """How many nodes are a majority."""
        return len(self.lines) // 2 + 1

    def ask(self, requests: Sequence[Request], until: float, resume: Resumption) -> None:
        """Set a question going."""
        asking = Asking(self, requests, until, resume)
        first = requests[0]
        if type(first) is Acquire and first.queue and not self.fleet.speech.listening:
            now = self.client.clock()
            for ear in self.ears:
                ear.listen(asking.begin)
            self.client.at(now + (until - now) / 2, asking.begin)
        else:
            asking.begin()

    def rounds(
        self, requests: Sequence[Request], until: float
    ) -> Generator[FanOut | Pause, None, Sequence[Answer]]:
        """What is to be asked of whom, one after the other."""
        quorum = self.fleet.quorum
        if quorum is not None:
            return (yield from quorum.ask(requests, until))
        poll = FanOut(requests, (0,), until)
        yield poll
        return self.fleet.answers(poll)

    def voters(self) -> int:
        """How many nodes there is a connection to that have a vote."""
        now = self.client.clock()
        connected = (line for line in self.lines if line.is_up)
        return sum(line.node.guard.quarantined_until <= now for line in connected)

    def stuck(self) -> set[int]:
        """The nodes to skip: those whose oldest answer is overdue, if there are enough others."""
        now = self.client.clock()
        up = [line for line in self.lines if line.is_up]
        stuck = {line.node.index for line in up if line.is_overdue(now)}
        return stuck if stuck and len(up) - len(stuck) >= self.size else set()

    def crash(self) -> None:
        """The kernel closes its connections."""
        for line in self.lines:
            line.crash()
        for ear in self.ears:
            ear.crash()


class Owner(Body):
    """What a store needs of its client."""

    calendar: float

    def arrives(self, action: Callable[[], None]) -> Callable[[], None]:
        """A message as it comes in."""
        raise NotImplementedError

    def fails(self, error: Exception) -> None:
        """Something raised that must not."""
        raise NotImplementedError


class Asking:
    """One question under way. It is the bell, too, that a connection rings when it is over."""

    def __init__(
        self, store: Store, requests: Sequence[Request], until: float, resume: Resumption
    ) -> None:
        self._store, self._client = store, store.client
        self._first = requests[0]
        self._rounds = store.rounds(requests, until)
        self._resume = resume
        self._poll: FanOut | None = None
        self._begun = False

    def begin(self) -> None:
        """Ask, unless it has been asked already."""
        if not self._begun:
            self._begun = True
            self._go_on()

    def done(self) -> bool:
        """Whether nobody waits for it any more."""
        return self._poll is None

    def set_result(self, result: None) -> None:
        """It is over."""
        if self._poll is not None and self._poll.over:
            self._go_on()

    def _go_on(self) -> None:
        self._poll = None
        if not self._resume.wanted:
            return self._rounds.close()
        try:
            effect = next(self._rounds)
        except StopIteration as stop:
            self._store.fleet.note(self._first, stop.value[0])
            return self._resume(stop.value)
        except Exception as error:  # noqa: BLE001 - a defect, to be told
            return self._client.fails(error)
        if isinstance(effect, Pause):
            return self._client.at(effect.until, self._go_on)
        return Performing(self._store, effect, self).begin()

    def perform(self, poll: FanOut) -> None:
        """Say it to all, then listen until it is over or its time is."""
        if not self._resume.wanted:
            return self._rounds.close()
        store, self._poll = self._store, poll
        try:
            phrase = store.fleet.speech.phrase(poll.requests)
        except Exception as error:  # noqa: BLE001 - a defect, to be told
            return self._client.fails(error)
        stuck = store.stuck()
        for index in poll.nodes:
            store.lines[index].ask(phrase, poll, self, stuck=index in stuck)
        store.sent(poll.requests)
        if poll.over:
            return self._go_on()
        return self._client.at(poll.until, lambda: self._time_out(poll))

    def _time_out(self, poll: FanOut) -> None:
        if poll is self._poll:
            for index in poll.nodes:
                if index not in poll.answers:
                    self._store.fleet.nodes[index].is_in_trouble(SILENT)
            poll.over = True
            self._go_on()


class Performing:
    """A poll that waits for connections first: for as long as there is no quorum without them."""

    def __init__(self, store: Store, poll: FanOut, asking: Asking) -> None:
        self._store, self._poll, self._asking = store, poll, asking
        self._began = store.client.clock()
        self._over = False

    def begin(self) -> None:
        """Connect to the nodes that there is no connection to."""
        lines = self._store.lines
        if all(line.is_up for line in lines):
            self._asking.perform(self._poll)
            return
        for line in lines:
            line.dial(lambda: self._store.voters() >= self._store.size, self._settled)
        self._settled()
        if not self._over:
            for instant in (self._poll.until, first_contact_until(self._poll, self._began)):
                self._store.client.at(instant, self._settled)

    def _settled(self) -> None:
        if self._over:
            return
        store, now = self._store, self._store.client.clock()
        alone = len(store.lines) == 1
        poll = self._poll
        if store.voters() < store.size:
            give_up_at = poll.until if alone else first_contact_until(poll, self._began)
        else:
            give_up_at = poll.until if store.fresh else self._began
        if now < give_up_at and any(line.is_dialling for line in store.lines):
            return
        self._over = True
        store.fresh = False
        if not alone and type(poll.requests[0]) is not Extend:
            poll.until += now - self._began  # connecting has a time of its own
        self._asking.perform(poll)


def _fleet(client: Owner, way: Way, around: StoreHost) -> Fleet:
    channel = f"{client.name}:channel"
    names = [server.name for server in way.servers]
    if len(names) == 1:
        speech = Speech(quorum=False, keep=KEEP, channel=channel)
        node = Node(0, _address(names[0]), RestartGuard(0, on=False), around, alone=True)
        return Fleet([node], speech, None, around, channel)
    longest = way.max_ttl + way.drift(way.max_ttl)
    guards = [RestartGuard(longest, on=way.guard) for _ in names]
    quorum = Quorum(
        names,
        guards,
        client.clock,
        lambda: EPOCH + client.timeline.now + client.calendar,
        client.timeline.random.uniform,
        way.drift,
    )
    max_ttl = way.max_ttl if way.guard else None
    nodes = [
        Node(index, _address(name), guard, around, max_ttl=max_ttl, longest=way.max_ttl)
        for index, (name, guard) in enumerate(zip(names, guards, strict=True))
    ]
    speech = Speech(quorum=True, keep=KEEP, channel=channel)
    return Fleet(nodes, speech, quorum, around, channel)


def _address(name: str) -> Address:
    def nowhere(timeout: float) -> None:
        raise NotImplementedError(f"{name} is virtual")

    async def nowhere_either(timeout: float) -> None:
        nowhere(timeout)

    return Address(name, nowhere, nowhere_either)
