"""The store of a client over a virtual etcd, as `engines.etcd.threads` and `aio` over a real one.

Exchanges, sessions, watches and failover are the engine's own. Every other client is cancelled as a
thread is: its exchange ends at once. With the rest it goes on, as under asyncio, and the next one
for the same holder waits for it.
"""

from collections.abc import Callable, Generator, Sequence
from functools import partial
from random import Random
from typing import Any, TypeAlias

from holdfast.core.holding import lose
from holdfast.core.messages import Failed, Request
from holdfast.core.ports import StoreHost
from holdfast.engines.etcd.aio import UNANSWERED
from holdfast.engines.etcd.commands import Call, KeepAlives
from holdfast.engines.etcd.connection import Cluster, Connections, Failover, NoAnswer
from holdfast.engines.etcd.exchanges import (
    Exchanges,
    Pause,
    Perform,
    exchange,
    holder_of,
    is_waiting,
)
from holdfast.engines.etcd.protocol import LEASE_KEEP_ALIVE, WATCH, LeaseKeepAliveRequest
from holdfast.engines.etcd.waiters import LINGER, REOPEN_AFTER, TICK
from holdfast.lab.simulator.driver import Resumption
from holdfast.lab.simulator.etcd.connection import Channel, Resume
from holdfast.lab.simulator.wiring import Owner, Wiring

Waits: TypeAlias = Generator[Callable[[Resume], None], Any, Any]
"""An activity: it yields what is to call it back, and is sent what comes."""


class Activity:
    """Something that a store does: it waits, and goes on with what comes, until it is over."""

    def __init__(
        self, client: Owner, steps: Waits, interrupted: Callable[[], bool] = lambda: False
    ) -> None:
        self._client, self._steps, self._interrupted = client, steps, interrupted
        self._waits = 0
        self._then: list[Resume] = []
        self.done = False

    def start(self) -> None:
        """Begin."""
        self._go_on(None)

    def then(self, action: Resume) -> None:
        """Call back with the result; with None if it was interrupted."""
        self._then.append(action)

    def stop_if_interrupted(self) -> None:
        """End it where it is, if its caller has stopped waiting."""
        if self._interrupted():
            self.close()

    def close(self) -> None:
        """End it where it is."""
        if not self.done:
            self._steps.close()
            self._end(None)

    def _resume(self, number: int, value: Any) -> None:
        self.stop_if_interrupted()
        if number == self._waits and not self.done:
            self._go_on(value)

    def _go_on(self, value: Any) -> None:
        try:
            wait = self._steps.send(value)
        except StopIteration as stop:
            return self._end(stop.value)
        except Exception as error:  # noqa: BLE001 - an internal error, to be reported
            self._client.fails(error)
            return self._end(None)
        self._waits += 1
        return wait(partial(self._resume, self._waits))

    def _end(self, result: Any) -> None:
        self.done = True
        for action in self._then:
            action(result)


class EtcdStore:
    """One cluster, for all that a client does."""

    def __init__(self, client: Owner, wiring: Wiring) -> None:
        self._client, self._clock, self._sent = client, client.clock, wiring.sent
        emit = client.events.append
        host = StoreHost(client.clock, self._notify, emit, partial(lose, client.runtime))
        randbits = Random(client.name).getrandbits  # noqa: S311 - to be repeatable, not secret
        self._exchanges = Exchanges(host, {}, randbits)
        self.connections = [Channel(client, wiring, index) for index in range(len(wiring.servers))]
        names = (server.name for server in wiring.servers)
        self._channels: dict[str, Channel] = dict(zip(names, self.connections, strict=True))
        self._connections = Connections(
            Cluster(tuple(self._channels)), self, emit, lambda *pairs: pairs
        )
        self._blocks = int(client.name[1:]) % 2 == 0
        self._activities: list[Activity] = []
        self._latest: dict[str, Activity] = {}
        """By holder: the last that asks something for it."""
        self._watches = False
        self._stream: Any = None

    def insecure_channel(self, name: str, options: Any) -> Channel:
        """The channel to a server."""
        return self._channels[name]

    def ask(self, requests: Sequence[Request], until: float, resume: Resumption) -> None:
        """Set a request going."""
        for each in list(self._activities):
            each.stop_if_interrupted()
        holder = holder_of(requests)
        before = None if self._blocks else self._latest.get(holder)
        steps = self._ask(requests, until, before)
        activity = Activity(self._client, steps, lambda: self._blocks and not resume.wanted)
        if holder:
            self._latest[holder] = activity
        activity.then(lambda answers: self._answer(holder, activity, answers, resume))
        self._start(activity)

    def crash(self) -> None:
        """The kernel closes its connections."""
        for channel in self.connections:
            channel.reset(ghost=True)
        for each in list(self._activities):
            each.close()

    def _start(self, activity: Activity) -> None:
        self._activities.append(activity)
        activity.then(lambda result: self._activities.remove(activity))
        activity.start()

    def _answer(self, holder: str, activity: Activity, answers: Any, resume: Resumption) -> None:
        if self._latest.get(holder) is activity:
            del self._latest[holder]
        if answers is not None:
            resume(answers)

    def _ask(self, requests: Sequence[Request], until: float, before: Activity | None) -> Waits:
        if before is not None:
            yield partial(self._wait_for, before, until)
            if not before.done:
                return [Failed.at("etcd", UNANSWERED)] * len(requests)
        answers = yield from self._exchange(self._exchanges.begin(requests), until, requests)
        if isinstance(answers, Failed):
            return [answers] * len(requests)
        if is_waiting(requests, answers) and not self._watches:
            self._watches = True
            reader = Activity(self._client, self._read())
            self._start(reader)
            self._start(Activity(self._client, self._keep(reader)))
        return answers

    def _exchange(
        self, begin: Callable[[], Any], until: float, requests: Sequence[Any] = ()
    ) -> Waits:
        steps = exchange(begin, Failover(self._connections, self._clock, until, once=False))
        try:
            effect = next(steps)
            while True:
                reply = yield partial(self._do, effect, requests)
                effect = steps.throw(reply) if isinstance(reply, NoAnswer) else steps.send(reply)
        except StopIteration as stop:
            return stop.value
        finally:
            steps.close()

    def _do(self, effect: Perform | Pause, requests: Sequence[Any], resume: Resume) -> None:
        if isinstance(effect, Pause):
            self._sleep(effect.seconds, resume)
            return
        if requests:
            self._sent(requests)  # a fault may wait for any call of an exchange
        step, connection, until = effect
        if isinstance(step, KeepAlives):
            alive = [LeaseKeepAliveRequest(ID=lease) for lease in step.leases]
            connection[LEASE_KEEP_ALIVE](alive, until, lambda got: resume(_ttls(got)))
            return
        calls = [step] if isinstance(step, Call) else step
        replies: dict[int, Any] = {}

        def received(number: int, got: Any) -> None:
            replies[number] = got if isinstance(got, NoAnswer) else got[0]
            if len(replies) == len(calls):
                resume(_together(step, [replies[each] for each in range(len(calls))]))

        for number, call in enumerate(calls):
            connection[call.method]([call.request], until, partial(received, number))
        if not calls:
            resume([])

    def _keep(self, reader: Activity) -> Waits:
        """Keep waiters' sessions alive; end when there was none for a while."""
        idle = 0
        while idle <= LINGER:
            yield partial(self._sleep, TICK)
            connection, until = self._connections.current, self._clock() + 2 * TICK
            yield from self._exchange(self._exchanges.locks.keep_waiters, until)
            if connection is not self._connections.current and self._stream is not None:
                self._stream.end()  # that endpoint has failed
            idle = 0 if self._exchanges.registry.sessions(waited_for=True) else idle + 1
        self._watches = False
        reader.close()

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

    def _notify(self, holder: str) -> None:
        """Soon, as a real driver does: not in the middle of an exchange."""
        self._client.at(self._clock(), lambda: self._client.notify(holder))

    def _sleep(self, seconds: float, resume: Resume) -> None:
        self._client.at(self._clock() + seconds, lambda: resume(None))

    def _wait_for(self, before: Activity, until: float, resume: Resume) -> None:
        before.then(resume)
        self._client.at(until, lambda: resume(None))


def _together(step: Any, replies: list[Any]) -> Any:
    """What an exchange is sent for a call, or for several; an error if one was not answered."""
    failure = next((each for each in replies if isinstance(each, NoAnswer)), None)
    return failure or (replies if isinstance(step, list) else replies[0])


def _ttls(got: Any) -> Any:
    return got if isinstance(got, NoAnswer) else [each.TTL for each in got]
