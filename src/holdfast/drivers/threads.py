"""The driver for threads: performs each effect by blocking.

Rules:

1. An interruption (Ctrl-C, a closing client) is thrown into the algorithm, which then yields its
   cleanup. After a Ctrl-C, that cleanup runs in a thread of its own, because a second Ctrl-C can
   only strike the main thread.
2. Wake-ups are remembered from `Listen` to `unlisten`, so one that comes early is not missed.
3. The renewer is one daemon thread, started with the first lease.
4. A forked child starts anew: no threads, no leases, fresh locks.
"""

import threading
from inspect import GEN_CLOSED, getgeneratorstate
from typing import TypeVar
from weakref import ref

from holdfast.core.effects import Announce, Ask, Listen, Sleep, Steps, Wait
from holdfast.core.holding import release_all
from holdfast.core.ports import Engine
from holdfast.core.renewal import RENEWER, renew_for_ever
from holdfast.drivers import surroundings
from holdfast.drivers.surroundings import (
    CLOSE_PATIENCE,
    RESTART_PAUSE,
    announce,
    clock,
    closed,
    make_world,
)
from holdfast.events import Defect

T = TypeVar("T")


class ThreadDriver:
    """Runs the core for one `Client`."""

    def __init__(self, engine: Engine) -> None:
        self.world = make_world(engine, threading.RLock(), self._unlisten, self._rouse_renewer)
        self._engine = engine
        self._begin()
        surroundings.survive_forks(self)

    def _begin(self) -> None:
        self.in_use = False
        self._store = self._engine.connect(clock, self._ring)
        self._tickets: dict[str, threading.Event] = {}
        self._renewer: threading.Thread | None = None
        self.closed = self._abandoned = False
        self._closing = threading.Event()
        self._running: set[object] = set()
        self._one_less = threading.Event()

    def current(self) -> "ref[threading.Thread]":
        """Who is asking: the running thread (not its number, which is used again)."""
        return ref(threading.current_thread())

    def run(self, steps: Steps[T]) -> T:
        """Perform an algorithm to its end, and give its result."""
        # First in, then the look, as `close` first closes and then looks: no lock is needed.
        self._running.add(steps)
        try:
            if self.closed:
                raise closed()
            self.in_use = True
            return self._drive(steps)
        finally:
            self._running.discard(steps)
            if self.closed:
                self._one_less.set()

    def close(self) -> None:
        """End the waits, give every lease back, stop the renewer, close the store."""
        with self.world.mutex:
            if self.closed:
                return
            self._end_waits()
        give_up_at = clock() + CLOSE_PATIENCE
        while self._running and clock() < give_up_at:
            self._one_less.wait(give_up_at - clock())
            self._one_less.clear()
        self._drive(release_all(self.world))
        renewer = self._renewer
        if renewer is not None and renewer is not threading.current_thread():
            renewer.join(CLOSE_PATIENCE)
        self._store.close()

    def abandon(self) -> None:
        """Stop without waiting for anything: the client was garbage-collected."""
        self._abandoned = True
        self._end_waits()
        if self._renewer is None:
            self._store.close()

    def forked(self) -> None:
        """In a forked child: whatever was held or under way is the parent's."""
        self.world.mutex = threading.RLock()
        surroundings.disown_all(self.world)
        self._store.forget()
        was_closed = self.closed
        self._begin()
        self.closed = was_closed

    def _end_waits(self) -> None:
        self.closed = True
        self._closing.set()
        for event in list(self._tickets.values()):
            event.set()

    def _drive(self, steps: Steps[T], thrown: BaseException | None = None) -> T:
        result: object = None
        while True:
            try:
                effect = steps.send(result) if thrown is None else steps.throw(thrown)
                thrown = None
                if isinstance(effect, Ask):
                    result = self._store.ask(effect.requests, effect.until)
                else:
                    result = self._perform(effect)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]  # typed by Steps[T]
            except BaseException as error:
                if getgeneratorstate(steps) == GEN_CLOSED:
                    raise  # the algorithm itself has ended with this
                if not isinstance(error, Exception):
                    return self._drive_out_of_reach(steps, error)
                thrown = error

    def _drive_out_of_reach(self, steps: Steps[T], error: BaseException) -> T:
        """Throw the error in and go on where a second Ctrl-C cannot strike."""
        outcome: list[T] = []
        raised: list[BaseException] = []

        def clean_up() -> None:
            try:
                outcome.append(self._drive(steps, error))
            except BaseException as ending:  # noqa: BLE001 - raised again below
                raised.append(ending)

        cleaner = threading.Thread(target=clean_up, name="holdfast-cleanup")
        while not (outcome or raised):
            try:
                if cleaner.ident is None:
                    cleaner.start()
                cleaner.join()
            except KeyboardInterrupt:
                continue  # the first one is on its way already
        if raised:
            raise raised[0]
        return outcome[0]

    def _perform(self, effect: Wait | Sleep | Listen | Announce) -> object:
        if isinstance(effect, Wait):
            return self._wait(self._tickets[effect.ticket], effect.until)
        if isinstance(effect, Sleep):
            return self._wait(self._closing, effect.until)
        if isinstance(effect, Listen):
            self._tickets[effect.ticket] = threading.Event()
        else:
            announce(self.world, effect.watchers)
        return None

    def _wait(self, event: threading.Event, until: float) -> bool:
        woken = not self.closed and event.wait(min(until - clock(), threading.TIMEOUT_MAX))
        if self.closed:
            raise closed()
        event.clear()
        return woken

    def _ring(self, ticket: str) -> None:
        event = self._tickets.get(ticket)
        if event is not None:
            event.set()

    def _unlisten(self, ticket: str) -> None:
        self._tickets.pop(ticket, None)

    def _rouse_renewer(self) -> None:
        with self.world.mutex:
            if self._renewer is None and not self.closed:
                self._renewer = threading.Thread(
                    target=self._renew, name="holdfast-renewer", daemon=True
                )
                self._renewer.start()
        self._ring(RENEWER)

    def _renew(self) -> None:
        """Run the renewer until the client is closed; should it ever fail, start it again."""
        while not self.closed:
            try:
                self._drive(renew_for_ever(self.world))
            except Exception as error:  # noqa: BLE001 - a defect must not end all renewals
                if not self.closed:
                    self.world.emit(Defect("the renewer", error))
                    self._closing.wait(RESTART_PAUSE)
        if self._abandoned:
            self._store.close()
