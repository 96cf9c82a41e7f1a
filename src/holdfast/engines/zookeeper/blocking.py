"""The way to ZooKeeper for threads."""

import atexit
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from holdfast.core.messages import Answer, Request
from holdfast.core.ports import Clock, StoreHost
from holdfast.engines.zookeeper.conversation import Conversation, request_timeout
from holdfast.engines.zookeeper.pulse import Pulse
from holdfast.engines.zookeeper.session import Terms
from holdfast.engines.zookeeper.speech import Speech, answers_of


class ZooKeeperStore:
    """One ensemble, for all threads of a client."""

    def __init__(self, terms: Terms, chroot: str, around: StoreHost) -> None:
        self._speech = Speech(terms, chroot, around)
        self._clock = around.clock
        self._care = Care(self._speech)

    def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Answer each request; `Failed` for what could not be answered by `until`."""
        self._care.begin()
        parts = self._speech.parts(requests)
        converse([part.conversation for part in parts], until, self._clock)
        return answers_of(parts, len(requests))

    def close(self) -> None:
        """End every session, and with it whatever hangs on it."""
        self._care.end()

    def forget(self) -> None:
        """In a forked child: the sessions are the parent's."""
        self._care.forget()
        self._speech.forget()
        self._care = Care(self._speech)


class Care:
    """What is done for a client's sessions and stakes in the background, in either colour."""

    def __init__(self, speech: Speech) -> None:
        self._speech = speech
        self._terms = speech.sessions.terms
        self._pulse: Pulse | None = None
        self._mutex = threading.Lock()

    def begin(self) -> None:
        """See to it that it is done."""
        if self._pulse is None:
            with self._mutex:
                if self._pulse is None:
                    self._pulse = Pulse(lambda: self._terms.tick / 2, self._beat, self._speech.emit)
                    atexit.register(self._leave)

    def end(self) -> None:
        """End every session. When the interpreter itself ends, no thread runs that could do it:
        then they end by themselves, since nothing is heard of them any more."""
        if sys.is_finalizing():
            return
        if self._pulse is not None:
            self._pulse.stop()
        self._speech.sessions.end()
        self.forget()  # not before: the process may end in the middle of this

    def forget(self) -> None:
        """Somebody else sees to it, or the parent does of whom we were forked."""
        atexit.unregister(self._leave)

    def _leave(self) -> None:
        """The process ends, and nobody has closed the client: what it has need not outlive it."""
        self._speech.sessions.leave()

    def _beat(self) -> None:
        for session in self._speech.sessions:
            session.beat()
        clock = self._speech.clock
        overdue = [part.conversation for part in self._speech.overdue()]
        converse(overdue, clock() + self._terms.tick / 4, clock)


def converse(conversations: Sequence[Conversation[Any]], until: float, clock: Clock) -> None:
    """Have conversations side by side: each says what it has to say before one is waited for."""
    under_way = list(conversations)
    while under_way:
        awaited = [(conversation, conversation.awaited()) for conversation in under_way]
        for conversation, promises in awaited:
            if not conversation.over:
                _go_on(conversation, promises, until, clock)
        under_way = [conversation for conversation in under_way if not conversation.over]


def _go_on(
    conversation: Conversation[Any], promises: Sequence[Any], until: float, clock: Clock
) -> None:
    if conversation.rest:
        time.sleep(max(0.0, min(conversation.rest, until - clock())))
    kept = all(_is_kept(promise, until, clock) for promise in promises)
    if not kept or (conversation.rest and clock() >= until):
        conversation.run_out()
    else:
        conversation.go_on()


def _is_kept(promise: Any, until: float, clock: Clock) -> bool:
    """Wait until a promise is kept, or broken; False if that is too late."""
    if promise.ready() or promise.wait(request_timeout(until, clock())):
        return True
    return bool(promise.wait(request_timeout(until, clock())))  # nothing, unless we stood still
