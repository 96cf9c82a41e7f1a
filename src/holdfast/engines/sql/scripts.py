"""What to say to an SQL database: scripts that yield statements and are sent rows.

They are pure, so that a blocking and an awaiting store can both speak them. Times are whole
microseconds.
"""

import re
from collections.abc import Callable, Generator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeAlias

from holdfast.core.messages import (
    DONE,
    NOT_YOURS,
    OFFER,
    Acquire,
    Answer,
    Break,
    Extend,
    Granted,
    Held,
    Inspect,
    Listing,
    Read,
    Release,
    Request,
    Seen,
    Write,
)
from holdfast.engines.sql import cells

MICROSECONDS = 1_000_000


Row: TypeAlias = tuple[Any, ...]

Statement: TypeAlias = tuple[str, tuple[Any, ...]]
"""SQL and its values; gives rows. (A plain tuple: two or three are made for every acquire.)"""


@dataclass(frozen=True, slots=True)
class Begin:
    """Open a transaction that may write."""


@dataclass(frozen=True, slots=True)
class Commit:
    """End it, keeping what it did."""


@dataclass(frozen=True, slots=True)
class Call:
    """Wake a waiter, who listens at that bell; gives whether anybody does."""

    bell: str
    holder: str


Step: TypeAlias = Statement | Begin | Commit | Call
Script: TypeAlias = Generator[Step, Any, Answer]


class Text:
    """A statement of one dialect. Called with its values, by position, it can be yielded."""

    __slots__ = ("pick", "sql")

    def __init__(self, sql: str, names: tuple[str, ...], mark: str) -> None:
        """`sql` has named values (`:key`); `names` is their order in a call. Drivers bind values
        that only have a place (`mark`) faster, so that is what they get."""
        used = [names.index(name) for name in re.findall(r":([a-z]+)", sql)]
        self.sql = re.sub(r":[a-z]+", mark, sql)
        self.pick: Callable[[tuple[object, ...]], tuple[object, ...]] = itemgetter(*used)
        if len(used) == 1:
            self.pick = itemgetter(slice(used[0], used[0] + 1))  # of one alone it makes no tuple

    def __call__(self, *values: object) -> "Statement":
        """The statement with these values."""
        return self.sql, self.pick(values)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The SQL of one kind of database. `VALUES` says what each statement takes."""

    acquire: Text
    """Gives (fence) if granted, else nothing."""
    look: Text
    """Gives (remaining, ttl, whether the end is an instant of our clock)."""
    adopt: Text
    """Count the time of a lease of another clock anew, on ours."""
    join: Text
    """Take a place in the queue, or keep it."""
    leave: Text
    """Give the place up."""
    extend: Text
    """Gives a row if done."""
    release: Text
    """Gives a row if done; does nothing while anybody waits."""
    mine: Text
    """Gives a row if it is the holder's."""
    first_two: Text
    """Gives (holder, ttl, bell) of the first in the queue, and of the first behind it who listens
    at another bell: one process that is stopped must not hold everybody up."""
    offer: Text
    """Hand the lease over to a waiter, with a new fence."""
    free: Text
    """Hand it to nobody."""
    holder: Text
    """Gives (holder) if held."""
    listing: Text
    """Gives (key, holder, fence, remaining, waiters) of each."""
    inspect: Text
    """Gives the same of one."""
    cell: Text
    """Gives (value, whether it is text, version) of a cell that was set."""
    make_cell: Text
    """Gives a row if done; does nothing if there is such a cell."""
    set_cell: Text
    """Gives a row if done; does nothing unless the version is the expected one."""

    @classmethod
    def of(cls, mark: str, **texts: str) -> "Dialect":
        """A dialect whose driver marks the place of a value so (`?`, `%s`)."""
        return cls(**{name: Text(sql, VALUES[name], mark) for name, sql in texts.items()})


VALUES = {
    "acquire": ("key", "holder", "ttl", "now", "boot"),
    "look": ("key", "now", "boot"),
    "adopt": ("key", "now", "boot"),
    "join": ("key", "holder", "ttl", "bell"),
    "leave": ("key", "holder"),
    "extend": ("key", "holder", "ttl", "now", "boot"),
    "release": ("key", "holder", "now", "boot"),
    "mine": ("key", "holder"),
    "first_two": ("key",),
    "offer": ("key", "holder", "waiter", "ttl", "until", "boot"),
    "free": ("key", "holder", "now", "boot"),
    "holder": ("key", "now", "boot"),
    "listing": ("prefix", "after", "limit", "now", "boot"),
    "inspect": ("key", "now", "boot"),
    "cell": ("key",),
    "make_cell": ("key", "value", "text"),
    "set_cell": ("key", "value", "text", "expect"),
}
"""The values of each statement, in the order in which scripts give them."""


class Scripts:
    """The scripts of one client."""

    def __init__(
        self, dialect: Dialect, now: Callable[[], int], boot: str, bell: Callable[[], str]
    ) -> None:
        self._sql = dialect
        self._now = now
        self._boot = boot
        self._bell = bell

    def answer(self, request: Request) -> Script:
        """The script for a request."""
        if isinstance(request, Acquire):
            return self._queue_up(request) if request.queue else self._acquire(request)
        if isinstance(request, Release):
            return self._release(request.key, request.holder)
        if isinstance(request, Extend):
            return self._extend(request)
        if isinstance(request, Break):
            return self._break(request)
        if isinstance(request, Inspect):
            return self._list(self._sql.inspect, request.key)
        if isinstance(request, Read):
            return cells.read(self._sql, request)
        if isinstance(request, Write):
            return cells.write(self._sql, request)
        return self._list(self._sql.listing, request.prefix, request.after, request.limit)

    def opening(self, request: Request) -> Statement | None:
        """The one statement that mostly is enough (see `conclude`), said without a generator."""
        if type(request) is Acquire and not request.queue:
            ttl = round(request.ttl * MICROSECONDS)
            text = self._sql.acquire
            return text.sql, text.pick((request.key, request.holder, ttl, self._now(), self._boot))
        if type(request) is Release:
            text = self._sql.release
            return text.sql, text.pick((request.key, request.holder, self._now(), self._boot))
        return None

    def conclude(self, request: Request, rows: list[Row]) -> Answer | None:
        """The answer, if the opening was enough; else the script is said, which begins with the
        same statement: to no effect, since it had none."""
        if not rows:
            return None
        return Granted(rows[0][0]) if type(request) is Acquire else DONE

    def _acquire(self, request: Acquire) -> Script:
        ttl = round(request.ttl * MICROSECONDS)
        now = self._now()
        rows = yield self._sql.acquire(request.key, request.holder, ttl, now, self._boot)
        if rows:
            return Granted(rows[0][0])
        remaining = yield from self._remaining(request.key)
        return Held(remaining, wakes=False)

    def _queue_up(self, request: Acquire) -> Script:
        key, holder = request.key, request.holder
        bell = self._bell()
        yield Begin()
        answer = yield from self._acquire(request)
        if isinstance(answer, Granted):
            yield self._sql.leave(key, holder)
        elif isinstance(answer, Held) and bell:
            yield self._sql.join(key, holder, round(request.ttl * MICROSECONDS), bell)
            answer = Held(answer.remaining, wakes=True)
        yield Commit()
        return answer

    def _remaining(self, key: str) -> Generator[Statement, list[Row], float]:
        """How much longer somebody else's lease may last."""
        values = (key, self._now(), self._boot)
        rows = yield self._sql.look(*values)
        if not rows:
            return 0.0
        remaining, ttl, on_our_clock = rows[0]
        if not on_our_clock:
            yield self._sql.adopt(*values)
            remaining = ttl
        return float(max(0, remaining) / MICROSECONDS)

    def _extend(self, request: Extend) -> Script:
        ttl = round(request.ttl * MICROSECONDS)
        now = self._now()
        rows = yield self._sql.extend(request.key, request.holder, ttl, now, self._boot)
        return DONE if rows else NOT_YOURS

    def _release(self, key: str, holder: str) -> Script:
        """Give back, and hand on to the first waiter that lives."""
        if (yield self._sql.release(key, holder, self._now(), self._boot)):
            return DONE
        answer: Answer | None = None
        while True:
            waiting: list[Row] = []
            yield Begin()
            yield self._sql.leave(key, holder)
            mine = yield self._sql.mine(key, holder)
            if mine:
                waiting = yield from self._hand_on(key, holder)
            elif (yield from self._may_be_an_offer(key)):
                waiting = yield self._sql.first_two(key)
            yield Commit()
            answer = answer or (DONE if mine else NOT_YOURS)
            if not waiting:
                return answer
            if (yield Call(waiting[0][2], waiting[0][0])):
                break
            holder = waiting[0][0]  # it is dead: give back what it has, and so on
        if mine and len(waiting) > 1:
            # The next one learns how short the offer is, so that it can move it on.
            yield Call(waiting[1][2], waiting[1][0])
        return answer

    def _hand_on(self, key: str, holder: str) -> Generator[Any, Any, list[Row]]:
        """Offer the lock to the first waiter; gives those to be called, that one first."""
        waiting: list[Row] = yield self._sql.first_two(key)
        if not waiting:
            yield self._sql.free(key, holder, self._now(), self._boot)
            return []
        waiter, ttl, _ = waiting[0]
        until = self._now() + round(OFFER * MICROSECONDS)
        yield self._sql.offer(key, holder, waiter, ttl, until, self._boot)
        yield self._sql.leave(key, waiter)
        return waiting

    def _may_be_an_offer(self, key: str) -> Generator[Any, Any, bool]:
        """Whether what somebody else has is so short that it may be an offer. Then whoever leaves
        the queue wakes the next one in it, who may be the only one left to move the offer on."""
        rows = yield self._sql.look(key, self._now(), self._boot)
        return bool(rows) and 0 < rows[0][0] <= OFFER * MICROSECONDS

    def _break(self, request: Break) -> Script:
        rows = yield self._sql.holder(request.key, self._now(), self._boot)
        if not rows:
            return NOT_YOURS
        return (yield from self._release(request.key, rows[0][0]))

    def _list(self, text: Text, *values: object) -> Script:
        rows = yield text(*values, self._now(), self._boot)
        return Listing(
            tuple(
                Seen(key, holder, fence, max(0, remaining) / MICROSECONDS, waiters)
                for key, holder, fence, remaining, waiters in rows
            )
        )
