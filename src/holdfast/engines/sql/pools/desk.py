"""Where connections of a user's own pool are borrowed and given back.

Rules:

1. Both are done in threads of our own. A pool may take longer than we have; and a Ctrl-C that
   strikes in the midst of it would cost the pool a connection. So the main thread borrows nothing.
2. What comes too late for whoever asked is for whoever asks next; after the end it is given back.
3. A connection is given back as it came. If there is any doubt about it, it is closed first.
4. The pool itself is never closed.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from holdfast.core.ports import Clock
from holdfast.engines.sql.conversation import connecting_until
from holdfast.engines.sql.links import BrokenError, SqlError
from holdfast.engines.sql.pools.errand import send
from holdfast.engines.sql.pools.lenders import Lender, Loan, exhausted

LEAVING = 2.0
"""How long a server has to take our goodbye. After that, the connection is closed."""

MOST_DEAD = 20
"""How many connections that turn out to be dead are tried for one request."""

_of_parents: list[object] = []


def keep_for_parent(things: object) -> None:
    """In a forked child: have nothing done to what is the parent's, not even by the collector."""
    _of_parents.append(things)


class LentWire(Protocol):
    """A connection that was lent to us, and how to leave it as it was."""

    give_back: Callable[[], None]
    """Set here."""

    @property
    def is_sound(self) -> bool:
        """Whether it owes nothing, and nothing about it is in doubt."""
        ...

    def take_leave(self, until: float) -> None:
        """Undo all that we have done to the session; raises an `SqlError` if that fails."""
        ...

    def hang_up(self) -> None:
        """Close it: there is nobody any more to whom it could be given back."""
        ...

    def forget(self) -> None:
        """In a forked child: let go of it without a word to the server. More than once is fine."""
        ...


W = TypeVar("W", bound=LentWire)


class Desk(Generic[W]):
    """Borrows for one client, one connection at a time. `greet` begins a conversation on it."""

    def __init__(self, lender: Lender, greet: Callable[[Any, float], W], clock: Clock) -> None:
        self._lender, self._greet, self._clock = lender, greet, clock
        self._begin()

    def _begin(self) -> None:
        self._loans: dict[W, Loan] = {}
        self._fetchings: list[_Fetching[W]] = []
        """Under way, or what nobody has had yet."""
        self._returns: list[SimpleQueue[None]] = []
        self._has_left = False
        self._mutex = threading.Lock()

    @property
    def has_lent(self) -> bool:
        """Whether a connection of the pool is with us."""
        return bool(self._loans)

    def borrow(self, until: float) -> W:
        """Borrow one; raises a `BrokenError` if there is none in time."""
        began = self._clock()
        while True:
            fetching = self._fetching(until)
            try:
                outcome = fetching.result(until - self._clock())
                self._fetchings.remove(fetching)
            except Empty:
                raise BrokenError(exhausted(until - began)) from None
            except ValueError:  # somebody else was faster
                continue
            if isinstance(outcome, SqlError):
                raise outcome
            return outcome

    def leave(self) -> None:
        """Give all back, and wait for that. What has yet to come is given back when it comes."""
        self._has_left = True
        self._fetchings.clear()
        for wire in list(self._loans):
            self._return(wire)
        with self._mutex:
            ends = list(self._returns)
        for end in ends:
            with suppress(Empty):
                end.get(timeout=2 * LEAVING)

    def forget(self) -> None:
        """In a forked child: all of it is the parent's."""
        self._lender.forget()
        for wire in self._loans:
            wire.forget()
        keep_for_parent(self._loans)
        self._begin()

    def _fetching(self, until: float) -> "_Fetching[W]":
        """What was begun for somebody else who did not have the time; or a new one."""
        for fetching in list(self._fetchings):
            if not fetching.has_failed:
                return fetching
            with suppress(ValueError):  # somebody else was faster
                self._fetchings.remove(fetching)
        fetching = _Fetching(partial(self._fetch, until))
        self._fetchings.append(fetching)
        return fetching

    def _fetch(self, until: float) -> W:
        """Find a connection that answers. A pool may have kept some that the server has ended."""
        dead = 0
        while True:
            loan = self._lender.lend(max(0.001, until - self._clock()))
            try:
                wire = self._begin_on(loan, until)
                break
            except BrokenError:
                dead += 1
                if dead == MOST_DEAD or self._has_left or self._clock() >= until:
                    raise
        wire.give_back = partial(self._give_back, wire)
        self._loans[wire] = loan
        if self._has_left:
            self._return(wire)
        return wire

    def _begin_on(self, loan: Loan, until: float) -> W:
        try:
            if self._has_left:
                raise BrokenError("the client was closed")
            # A late one has what is left of its time, or enough to be of use to the next.
            return self._greet(loan.connection, connecting_until(until, self._clock()))
        except BaseException:
            self._lender.take_back(loan, sound=False)
            raise

    def _give_back(self, wire: W) -> None:
        try:
            send(partial(self._return, wire))
        except RuntimeError:  # no thread can be had: then here, and hope that nothing strikes
            self._return(wire)

    def _return(self, wire: W) -> None:
        end: SimpleQueue[None] = SimpleQueue()
        with self._mutex:
            loan = self._loans.pop(wire, None)
            if loan is None:
                return  # somebody else does it
            self._returns.append(end)
        is_sound = wire.is_sound
        try:
            if is_sound:
                wire.take_leave(self._clock() + LEAVING)
        except SqlError:
            is_sound = False
        try:
            self._lender.take_back(loan, sound=is_sound)
        except SqlError:  # a loop that is closed, and its pool with it
            wire.hang_up()
        finally:
            self._returns.remove(end)
            end.put(None)


class _Fetching(Generic[W]):
    """A connection that is being fetched, in a thread of its own."""

    def __init__(self, fetch: Callable[[], W]) -> None:
        self._fetch = fetch
        self._outcome: SimpleQueue[W | SqlError] = SimpleQueue()
        self.has_failed = False
        send(self._run)

    def result(self, seconds: float) -> W | SqlError:
        """Wait for it; raises `Empty` if it does not come in time."""
        outcome = self._outcome.get(timeout=max(0.0, seconds))
        self._outcome.put(outcome)  # for others who wait
        return outcome

    def _run(self) -> None:
        try:
            self._outcome.put(self._fetch())
        except Exception as error:  # noqa: BLE001 - a user's pool may raise anything
            self.has_failed = True
            known = error if isinstance(error, SqlError) else BrokenError(repr(error))
            self._outcome.put(known)
