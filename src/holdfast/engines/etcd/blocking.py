"""The way to etcd for threads."""

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import grpc

from holdfast.core.messages import Acquire, Answer, Failed, Held, Release, Request, Write
from holdfast.core.ports import StoreHost
from holdfast.engines.etcd.attendant import Attendant
from holdfast.engines.etcd.books import Books, Stake
from holdfast.engines.etcd.deputy import Deputy
from holdfast.engines.etcd.failover import Failover
from holdfast.engines.etcd.lines import (
    FAREWELL,
    SHORTEST,
    Cluster,
    Line,
    Lines,
    keep_for_ever,
)
from holdfast.engines.etcd.phrases import Call, KeepAlives
from holdfast.engines.etcd.protocol import LEASE_KEEP_ALIVE, LeaseKeepAliveRequest
from holdfast.engines.etcd.replies import Refused, Rejected, Trouble, accepted, judge
from holdfast.engines.etcd.speech import Speech, Talk
from holdfast.engines.etcd.sweeper import Sweeper
from holdfast.engines.etcd.vigil import TICK, Vigil

T = TypeVar("T")


class EtcdStore:
    """One cluster, for all threads of a client."""

    def __init__(
        self, cluster: Cluster, around: StoreHost, stakes: dict[str, Stake] | None = None
    ) -> None:
        self._clock = around.clock
        self._books = Books(around.notify, around.clock, stakes)
        self._vigil = Vigil(self._books.call, around.notify)
        self._speech = Speech(self._books, self._vigil)
        self._lines = Lines(cluster, grpc, around.emit)
        self._begin()

    def _begin(self) -> None:
        self._attendants: list[Attendant] = []
        """The last one attends; those before it are taking their leave."""
        self._deputy: Deputy | None = None
        self._sweeper = Sweeper(self._books.spares, self._revoke)
        self._mutex = threading.Lock()

    def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Answer each request; `Failed` for what could not be answered by `until`."""
        if threading.current_thread() is threading.main_thread():
            self._deputy = self._deputy or Deputy()
            return self._deputy.ask(lambda: self._ask(requests, until), requests)
        if self._deputy is not None:
            self._deputy.let_finish(requests, until - self._clock())
        return self._ask(requests, until)

    def _ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        first = requests[0]
        once = isinstance(first, Write)  # what may have been done must not be done again
        answers = self._talk_over(partial(self._speech.talk, requests, {}), until, once=once)
        if isinstance(answers, Failed):
            return [answers] * len(requests)
        if type(answers[0]) is Held and isinstance(first, Acquire) and first.queue:
            self._attend()
        if isinstance(first, Release):
            self._sweeper.rouse()
        return answers

    def close(self) -> None:
        """Revoke what is left, and close every connection."""
        for attendant in self._attendants:
            attendant.stop()
        if self._deputy is not None:
            self._deputy.close()
        self._sweeper.stop()
        self._revoke(self._books.take_all())
        for line in self._lines.hang_up():
            line.channel.close()

    def forget(self) -> None:
        """In a forked child: the connections are the parent's."""
        keep_for_ever(*self._attendants, self._deputy, self._sweeper)
        self._lines.forget()
        self._books.begin()
        self._vigil.begin()
        self._begin()

    def _attend(self) -> None:
        """See to it that those who wait are woken, and keep their places."""
        with self._mutex:
            if not self._attendants or self._attendants[-1].over:
                attendant = Attendant(self._lines, self._vigil, self._keep_places)
                self._attendants = [*(each for each in self._attendants if each.alive), attendant]
                attendant.start()

    def _keep_places(self) -> None:
        """Keep the places of those who wait; if nobody does any more, there is nothing to do."""
        if self._books.anybody_waits():
            self._talk_over(self._speech.keep_session, self._clock() + TICK)
            return
        self._talk_over(self._speech.end_sessions, self._clock() + FAREWELL)
        with self._mutex:
            if not self._books.anybody_waits():
                self._attendants[-1].dismiss()

    def _revoke(self, leases: list[int]) -> None:
        """Revoke leases that nobody needs any more, as far as that can be told."""
        if leases:
            self._talk_over(partial(self._speech.revoke, leases), self._clock() + FAREWELL)

    def _talk_over(
        self, begin: Callable[[], Talk[T]], until: float, *, once: bool = False
    ) -> T | Failed:
        """Have a talk with one endpoint after the other, until one of them answers."""
        endpoints = Failover(self._lines, self._clock, until, once=once)
        for line, give_up_at in endpoints:
            talk = begin()
            try:
                result = self._converse(talk, line, give_up_at)
            except Trouble as trouble:
                pause = endpoints.gave_trouble(line, trouble)
                time.sleep(min(pause, self._left(until)))
            except Rejected as refusal:
                return Failed.at(line.name, str(refusal), refusal.heals_in)
            else:
                self._lines.prefer(line)
                return result
            finally:
                talk.close()
        return endpoints.failure

    def _converse(self, talk: Talk[T], line: Line, until: float) -> T:
        try:
            step = next(talk)
            while True:
                step = talk.send(self._perform(step, line, until))
        except StopIteration as stop:
            result: T = stop.value
            return result

    def _perform(self, step: Call | list[Call] | KeepAlives, line: Line, until: float) -> Any:
        if self._lines.needs_login:
            self._log_in(line, until)
        if isinstance(step, Call):
            return self._call(step, line, until)
        if isinstance(step, KeepAlives):
            return self._keep_alive(step, line, until)
        if len(step) == 1:
            return [self._call(step[0], line, until)]
        return self._call_together(step, line, until)

    def _call(self, call: Call, line: Line, until: float) -> Any:
        reply = self._try(call, line, until)
        if isinstance(reply, Refused) and reply.wants_login and self._lines.cluster.user:
            self._log_in(line, until)
            reply = self._try(call, line, until)
        return reply

    def _try(self, call: Call, line: Line, until: float) -> Any:
        try:
            return line[call.method](
                call.request, timeout=self._left(until), metadata=self._lines.metadata
            )
        except grpc.RpcError as error:
            return judge(error)

    def _call_together(self, calls: list[Call], line: Line, until: float) -> list[Any]:
        left, metadata = self._left(until), self._lines.metadata
        sent = [line[each.method].future(each.request, left, metadata) for each in calls]
        replies = []
        for each in sent:
            try:
                replies.append(each.result())
            except grpc.RpcError as error:
                replies.append(self._lines.judge(error))
        return replies

    def _keep_alive(self, batch: KeepAlives, line: Line, until: float) -> list[int]:
        requests = [LeaseKeepAliveRequest(ID=lease) for lease in batch.leases]
        call = line[LEASE_KEEP_ALIVE]
        try:
            replies = call(iter(requests), self._left(until), self._lines.metadata)
            ttls = [reply.TTL for reply in replies]
        except grpc.RpcError as error:
            raise self._lines.judge(error).error from None
        if len(ttls) < len(requests):
            raise Trouble("did not answer for every lease")
        return ttls

    def _log_in(self, line: Line, until: float) -> None:
        self._lines.logged_in("")
        reply = accepted(self._try(self._lines.introduction, line, until))
        self._lines.logged_in(reply.token)

    def _left(self, until: float) -> float:
        return max(until - self._clock(), SHORTEST)
