"""A client, step by step, and a server that says yes to everything unless it is told not to."""

from collections.abc import Sequence
from typing import Any, TypeVar

from holdfast.core.messages import DONE, Acquire, Answer, Extend, Granted, Release
from holdfast.engines.etcd.books import Books
from holdfast.engines.etcd.keeping import Keeping
from holdfast.engines.etcd.phrases import KeepAlives
from holdfast.engines.etcd.protocol import TXN, _messages
from holdfast.engines.etcd.speech import Talk
from holdfast.engines.etcd.taking import Taking
from holdfast.engines.etcd.vigil import Vigil

T = TypeVar("T")

TTL = 60
PAIR = 0.001
"""Seconds for an acquire and a release in a loop."""


class Client:
    """What it says, on a clock that stands still unless it is told to move on."""

    def __init__(self) -> None:
        self.now = 100.0
        self.books = Books(lambda holder: None, lambda: self.now)
        vigil = Vigil(lambda holder: None, lambda holder: None)
        self._taking, self._keeping = Taking(self.books, vigil), Keeping(self.books, vigil)
        self._revision = 1
        self.said: list[Any] = []
        self.leases: list[int] = []
        """That keys were put on, one after the other."""

    def acquire(self, holder: str, ttl: int = TTL, **instead: Any) -> Answer | None:
        return self.converse(self.taking(holder, ttl), **instead)

    def release(self, holder: str, **instead: Any) -> Answer | None:
        return self.converse(self.releasing(holder), **instead)

    def taking(self, holder: str, ttl: int = TTL) -> Talk[Answer]:
        return self._taking.acquire(Acquire("door", holder, ttl))

    def releasing(self, holder: str) -> Talk[Answer]:
        [answer] = yield from self._keeping.release([Release("door", holder)])
        return answer

    def releasing_all(self, *holders: str) -> Talk[Sequence[Answer]]:
        return self._keeping.release([Release("door", each) for each in holders])

    def extending(self, holder: str, ttl: int, fence: int) -> Talk[Answer]:
        [answer] = yield from self._keeping.extend([Extend("door", holder, ttl, fence)])
        return answer

    def converse(self, talk: Talk[T], **instead: Any) -> T | None:
        """Have a talk, with other replies to the steps of these numbers: `step_0=...`; the reply
        None is no reply, and so there is no result."""
        self.said = []
        try:
            step = next(talk)
            for number in range(10):
                reply = instead.get(f"step_{number}", self.reply(step))
                if reply is None:
                    talk.close()
                    return None
                step = talk.send(reply)
        except StopIteration as end:
            result: T = end.value
            return result
        raise AssertionError(f"it goes on: {step}")

    def reply(self, step: Any) -> Any:
        if isinstance(step, list):
            return [self.reply(each) for each in step]
        if isinstance(step, KeepAlives):
            return [TTL for _ in step.leases]
        self.said.append(step.method)
        if step.method is not TXN:
            return _messages["LeaseGrantResponse"]()
        for each in step.request.success:
            if each.HasField("request_put"):
                self.leases.append(each.request_put.lease)
        self._revision += 1
        return _messages["TxnResponse"](succeeded=True, header={"revision": self._revision})

    def pairs(self, count: int) -> None:
        """In quick succession."""
        for number in range(count):
            assert isinstance(self.acquire(f"pair {number}"), Granted)
            assert self.release(f"pair {number}") is DONE
            self.now += PAIR

    @property
    def has_spare(self) -> bool:
        return self.books.spares.due_in() is not None
