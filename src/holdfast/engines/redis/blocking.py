"""The way to Redis for threads. A thread takes a circuit that is free, or makes another."""

import threading
import time
from collections.abc import Callable, Sequence

from holdfast.core.fanout import FanOut, Pause
from holdfast.core.messages import Acquire, Answer, Failed, Held, Release, Request, Write
from holdfast.engines.redis.circuit import Circuit
from holdfast.engines.redis.ear import Ear
from holdfast.engines.redis.nodes import GONE, Fleet
from holdfast.engines.redis.owing import ORDERED
from holdfast.engines.redis.sole import SoleCircuit
from holdfast.engines.redis.speech import Speech


class RedisStore:
    """One server, or a quorum of several."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._quorum = fleet.quorum
        self._direct = fleet.direct
        self._make = Circuit if fleet.direct is None else SoleCircuit
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        self._free: list[Circuit] = self._fleet.owing.resting
        self._sole: list[SoleCircuit] = self._fleet.owing.resting
        """The same, for a single server that can be asked directly."""
        self._all: list[Circuit] = self._fleet.owing.all
        self._ears: list[Ear] = []
        self._mutex = threading.Lock()

    def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Answer each request; `Failed` for what could not be answered by `until`."""
        request = requests[0]
        if self._closed:
            return [Failed.at(self._fleet.nodes[0].name, GONE)] * len(requests)
        if type(request) is Acquire and request.queue:
            self._fleet.waiting.add(request.holder)  # it may be woken before it has its answer
            if not self._fleet.wakes:
                until = self._fleet.time_to_answer(until)
            elif not self._fleet.speech.listening:
                self._listen(until)
        if self._direct is not None and len(requests) == 1 and self._free:
            answer = self._ask_directly(self._direct, request, until)
            if answer is not None:
                return (answer,)
        if type(request) is Write:
            return self._converse(requests, until)
        if type(request) is Release and len(requests) > 1:
            return self._release_all(requests, until)
        return self._ask_on(self._take(request), requests, until)

    def _ask_directly(self, speech: Speech, request: Request, until: float) -> Answer | None:
        """Ask a single server, in the usual case; None if it is not that."""
        if type(request) is not Acquire and type(request) is not Release:
            return None
        fleet = self._fleet
        if request.holder in fleet.owing.circuits:
            return None  # it must go out behind something else, on whichever connection
        try:
            circuit = self._sole.pop()
        except IndexError:
            return None  # another thread was faster
        try:
            answer = circuit.ask(request, speech, until)
        finally:
            self._sole.append(circuit)
        if type(answer) is Failed:
            fleet.waiting.discard(request.holder)
            answer = Failed.at(fleet.nodes[0].name, answer.nodes[0][1])
        elif answer is not None and (fleet.waiting or type(answer) is Held):
            fleet.note(request, answer)
        return answer

    def _ask_on(
        self, circuit: Circuit, requests: Sequence[Request], until: float
    ) -> Sequence[Answer]:
        try:
            if self._quorum is None:
                poll = FanOut(requests, (0,), until)
                circuit.perform(poll)
                answers = self._fleet.answers(poll)
            else:
                steps = self._quorum.ask(requests, until)
                try:
                    while True:
                        effect = next(steps)
                        if isinstance(effect, Pause):
                            time.sleep(max(0.0, effect.until - self._fleet.around.clock()))
                        else:
                            circuit.perform(effect)
                except StopIteration as stop:
                    answers = stop.value
        finally:
            self._free.append(circuit)
        if self._fleet.waiting or type(answers[0]) is Held:
            self._fleet.note(requests[0], answers[0])
        return answers

    def _release_all(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Release many together, but those one by one whose acquires are not answered yet."""
        owing = self._fleet.owing.circuits
        alone = [r for r in requests if isinstance(r, Release) and r.holder in owing]
        answers = {id(r): self._ask_on(self._take(r), (r,), until)[0] for r in alone}
        together = [r for r in requests if id(r) not in answers]
        if together:
            found = self._ask_on(self._take(together[0]), together, until)
            answers |= {id(r): answer for r, answer in zip(together, found, strict=True)}
        return [answers[id(r)] for r in requests]

    def pump(self, waiter_id: str, silent: Callable[[], bool], until: float) -> None:
        """On the thread of one who waits: hear what there is to hear, as long as nobody rings."""
        if waiter_id in self._fleet.waiting:
            for ear in self._ears:
                ear.pump(waiter_id, silent, until)

    def stop_pumping(self) -> None:
        """Nobody waits any more."""
        for ear in self._ears:
            ear.stop()

    def close(self) -> None:
        """Close every connection."""
        # Somebody may be left who wants to tidy up, if this is called by a signal handler.
        self._closed = True
        for ear in self._ears:
            ear.close()
        for circuit in list(self._all):  # a talk may end meanwhile
            circuit.close()

    def forget(self) -> None:
        """In a forked child: the connections are the parent's."""
        for ear in self._ears:
            ear.forget()
        for circuit in self._all:
            circuit.forget()
        self._fleet.forked()
        self._begin()

    def _converse(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """A talk that nobody else may have a part in: on connections of its own."""
        circuit = Circuit(self._fleet)
        self._all.append(circuit)
        try:
            poll = FanOut(requests, (0,), until)
            circuit.perform(poll)
            return self._fleet.answers(poll)
        finally:
            circuit.close()
            self._all.remove(circuit)

    def _take(self, request: Request) -> Circuit:
        """A circuit: if it can be had, the one on which something of this holder is not answered
        yet."""
        circuit: Circuit
        if self._fleet.owing.noting and isinstance(request, ORDERED):
            for circuit in self._fleet.owing.circuits.get(request.holder, ()):
                try:
                    self._free.remove(circuit)
                except ValueError:
                    continue  # another thread uses it
                return circuit
        try:
            return self._free.pop()
        except IndexError:
            circuit = self._make(self._fleet)
            self._fleet.owing.admit(circuit)
            return circuit

    def _listen(self, until: float) -> None:
        """See to it that we can be woken."""
        fleet = self._fleet
        with self._mutex:
            if not self._ears and not self._closed:
                self._ears = [Ear(node, fleet) for node in fleet.nodes]
        left = until - fleet.around.clock()
        for ear in self._ears[:1]:
            ear.ready.wait(max(0.0, left / 2))
