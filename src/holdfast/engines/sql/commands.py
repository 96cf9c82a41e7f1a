"""The statements for each request, and how to read their rows: pure, for every dialect.

Tables:

    leases    name, holder (null: free), shares, fence, ttl, expires, offered, queued
    waiters   name, place, holder, shares, listener, alive_until
    members   name, holder, shares, ttl, expires, offered: see `holdfast.engines.sql.statements`
    cells     name, value, is_text, version

A command yields statements and is sent their rows. Several statements yielded together are one
transaction, which begins by locking the name's row. Times are whole microseconds of the database's
clock.

1. The uncontended path is one statement on one row: `acquire` takes a lock that is free or expired
   and has no queue, `release` frees one that has no queue. `queued` in the row is true if there are
   waiters; it changes under the row's lock only, so neither overlooks a waiter that joins.
2. A waiter has a row in `waiters`; the lowest `place` is first. A release, and a client that finds
   the lock expired, *offers* the lock to the first living waiter (`offer`): the row then has that
   holder, is `offered`, and expires after `OFFER`. The waiter takes it by asking again. An offer
   to a waiter that polls lasts until that waiter would be taken for dead.
3. Dead waiters before the first living one are deleted by one statement (`bury`), however many they
   are. SQLite notices that a listener died only when it is to be woken: then all waiters of that
   listener are deleted (`forget`), and the lock is offered again. A waiter that was deleted
   although it lives, because it was stopped for a while, takes its old place when it asks again.
4. Only `acquire` changes a fence: not an offer, which must not wait for a guarded transaction.
5. No lease lasts longer than the ttl that was asked for, counted from now. An expiry beyond that
   means that the clock was set back (on SQLite: that it is of another boot): `adopt` counts anew.
6. `acquire` and `join` have a deadline by the server's clock. A server that was stopped, and
   executes them after the client gave up, does nothing.
"""

from collections.abc import Sequence
from itertools import chain, groupby
from typing import Any

from holdfast.core.messages import (
    CHANGED,
    DONE,
    NOT_YOURS,
    OFFER,
    Acquire,
    Answer,
    Break,
    Extend,
    Failed,
    Granted,
    Held,
    Inspect,
    List,
    Listing,
    Read,
    Release,
    Request,
    Seen,
    Write,
)
from holdfast.core.records import Versioned
from holdfast.engines.sql.dialect import (
    MARKER,
    MICROSECONDS,
    BootClock,
    Command,
    Dialect,
    Results,
    Row,
    ServerClock,
    State,
    Statement,
    Text,
    as_text,
)
from holdfast.engines.sql.waiters import LONGEST_LIFE, SHORTEST_LIFE, Waiters, life_of

POLL = 0.2
"""The longest interval, in seconds, at which a waiter polls that cannot be woken."""

GUARDED = 0.05
"""When to ask again for a lock that is free but for a transaction that relies on its last lease; or
that was, and was taken in the meantime."""

LONGEST_LOCK_WAIT = 0.5
"""A row that stays locked for longer is locked by a transaction that relies on its lease, and not
by another's statement."""

LEASES_AT_ONCE, MEMBERS_AT_ONCE = 100, 20
"""How many leases, or members, one transaction extends. Their rows stay locked meanwhile."""

WAITERS_AT_ONCE = 100
"""How many waiters one transaction marks as alive."""


CLOCK_SET = "the server's clock was set during the request"


class Commands:
    """The commands of one client."""

    def __init__(
        self, node: str, sql: Dialect, clock: ServerClock | BootClock, waiters: Waiters
    ) -> None:
        self.node, self._sql, self._clock, self._waiters = node, sql, clock, waiters
        lock = () if sql.lock is None else (sql.lock,)
        bury = (sql.bury,) if sql.front is None else (sql.front, sql.bury)
        offer = (sql.offer, sql.heads, sql.drop)
        self._texts_of_offer = lock, (*bury, *offer, sql.look)
        """What comes first in such a transaction, and what last."""
        before = (sql.recount, sql.expire, sql.unfold, sql.share)
        admit = (sql.admit, sql.woken, sql.drop_members, sql.tally)
        self._texts_of_offer_shares = (*lock, *before), (*bury, *admit, *offer, sql.peek)
        self._texts_of_take = (sql.acquire,) if sql.verdict is None else (sql.acquire, sql.verdict)
        enter = (sql.enter, sql.rise, sql.confirm, sql.tally, sql.peek)
        self._texts_of_take_share = (sql.reserve, *before, *enter)
        self._texts_of_prolong = (*lock, *before, sql.prolong, sql.tally)

    def answer(self, request: Request, until: float, *, was_tried: bool = False) -> Command[Answer]:
        """The command for a request, but for an `Extend`, whose answer is awaited until then.
        `was_tried`: the store has sent `acquire` by itself, which took nothing."""
        if isinstance(request, Acquire):
            return self._acquire(request, until, was_tried=was_tried)
        if isinstance(request, Release):
            return self._release(request)
        if isinstance(request, Break):
            return self._break(request)
        if isinstance(request, Inspect):
            return self._list(self._sql.inspect, key=request.key)
        if isinstance(request, Read):
            return self._read(request)
        if isinstance(request, Write):
            return self._write(request)
        assert isinstance(request, List)  # noqa: S101 - it is the last kind
        return self._list(
            self._sql.listing, prefix=request.prefix, after=request.after, limit=request.limit
        )

    def _acquire(self, request: Acquire, until: float, *, was_tried: bool) -> Command[Answer]:
        """Take it. If that cannot be done, join the queue, and take it if it is our turn by now."""
        key, holder, waiters = request.key, request.holder, self._waiters
        is_shared, place = request.shares != 1, waiters.place(holder)
        take = self._take_share if is_shared else self._take_whole
        offer = self._offer_shares if is_shared else self._offer
        listener, pid = address = waiters.listener() if request.queue else ("", 0)
        if request.queue and place and not listener:
            held = yield from self._poll(request)
            if held is not None:
                return held
        if place or not request.queue:  # a newcomer to the queue has tried a moment ago
            answer = yield from take(request, until, was_tried=was_tried)
            if answer is not None:
                return answer
        for _ in range(2):
            asked_at = self._clock.ours()
            state = yield from self._join(request, until, listener, pid)
            if state.is_shared or not (state.owner and state.remaining):
                _, state = yield from offer(key, (), request)
            if request.queue and state.place:
                waiters.joined(holder, state.place, life_of(request.ttl), address)
            # "": it is free, and no one waits; or its row was deleted meanwhile.
            if state.may_enter if is_shared else state.owner in ("", holder):
                answer = yield from take(request, until)
                return answer or Held(GUARDED, wakes=False)
            if state.place or not request.queue:
                return self._held(request, state.remaining, listener)
            # It came too late, or the server takes the listener for dead.
            self._clock.learn(asked_at, state.now)
            listener, pid = "", 0
        return Failed.at(self.node, CLOCK_SET)

    def _take_whole(
        self, request: Acquire, until: float, *, was_tried: bool = False
    ) -> Command[Answer | None]:
        """None if the queue has to be asked whose turn it is."""
        if was_tried:
            return _held_by_another(request, (yield from self._look(request)))
        state = yield from self._take(request, until, self._texts_of_take)
        if isinstance(state, Failed):
            return state
        if state.fence is not None:
            return Granted(state.fence)
        # If it is not held, there is a queue, or a transaction relies on the last lease.
        return None if request.queue else _held_by_another(request, state)

    def _take_share(
        self, request: Acquire, until: float, *, was_tried: bool = False
    ) -> Command[Answer | None]:
        """The same, for a share of the lock."""
        if not request.queue and not was_tried:
            state = yield from self._take(request, until, self._texts_of_take)
            if isinstance(state, Failed):
                return state
            if state.fence is not None:
                return Granted(state.fence)
        state = yield from self._take(request, until, self._texts_of_take_share)
        if isinstance(state, Failed):
            return state
        if state.fence is not None:
            if state.has_room and state.is_first_alike:  # `admit` takes no more than 100 at once
                yield from self._offer_shares(request.key)
            return Granted(state.fence)
        return None  # a member, too, has no fence while a transaction relies on the last lease

    def _take(
        self, request: Acquire, until: float, texts: tuple[Text, ...]
    ) -> Command[State | Failed]:
        """Take it by these statements, if it is free or has room and no queue, or is offered to
        us."""
        key, holder, sql = request.key, request.holder, self._sql
        for _ in range(2):
            asked_at, deadline = self._clock.ours(), self._clock.deadline(until)
            results = yield self._statements(
                *texts,
                key=key,
                holder=holder,
                shares=request.shares,
                ttl=_micro(request.ttl),
                deadline=deadline,
                lock_wait=self._lock_wait(until),
            )
            rows = results[-1]
            if not rows or (texts is self._texts_of_take and not results[0]):  # it did nothing
                asked_at = self._clock.ours()
                [rows] = yield self._statements(sql.look, key=key, holder=holder)
            state = State.of(rows[0])
            self._clock.learn(asked_at, state.now)
            if state.now < deadline:
                if state.fence is not None:
                    self._waiters.stop_polling(holder)
                return state
            # It may have done nothing: the server's clock is not what we took it for. Now we know.
        return Failed.at(self.node, CLOCK_SET)

    def _held(self, request: Acquire, remaining: float, listener: str) -> Held:
        """The answer if another client has the lock. A waiter asks again after its own ttl at the
        latest, but not too often: the lock may have been offered to another one that was stopped,
        or died, just then."""
        if not request.queue:
            return Held(remaining, wakes=False)
        if listener:
            self._waiters.stop_polling(request.holder)
            return Held(min(remaining, max(request.ttl, SHORTEST_LIFE)), wakes=True)
        if self._waiters.polls(request.key, request.holder, request.shares):
            return Held(min(remaining, POLL), wakes=False)
        return Held(life_of(request.ttl), wakes=True)  # by the one that polls for it

    def _join(self, request: Acquire, until: float, listener: str, pid: int) -> Command[State]:
        """Take a place in the queue, if it waits; and look who has the lock."""
        sql, lock = self._sql, self._texts_of_offer[0]
        join = (sql.join, sql.mark) if request.queue else ()
        results = yield self._statements(
            *(*lock, sql.adopt, *join, sql.look),
            key=request.key,
            holder=request.holder,
            shares=request.shares,
            place=self._waiters.place(request.holder),
            listener=listener,
            pid=pid,
            own_life=_micro(life_of(request.ttl)),
            deadline=self._clock.deadline(until),
        )
        return State.of(results[-1][0])

    def _look(self, request: Acquire) -> Command[State]:
        [[row]] = yield self._statements(self._sql.look, key=request.key, holder=request.holder)
        return State.of(row)

    def _poll(self, request: Acquire) -> Command[Held | None]:
        """A waiter that is not woken asks again: it reads. None if the lock may be its own now."""
        state = yield from self._look(request)
        held = _held_by_another(request, state)
        if held is None or not state.place:  # taken for dead, and out of the queue
            return None
        answer = self._held(request, held.remaining, "")
        stale = [] if answer.wakes else self._waiters.stale(request.key)
        for first in range(0, len(stale), WAITERS_AT_ONCE):
            some = stale[first : first + WAITERS_AT_ONCE]
            touch = [
                self._statements(self._sql.touch, holder=each, own_life=_micro(life))
                for each, life in some
            ]
            results = yield tuple(chain.from_iterable(touch))
            for (each, _), rows in zip(some, results, strict=True):
                self._waiters.marked(each, has_place=bool(rows))
                if each == request.holder and not rows:
                    return None
        return answer

    def extend_all(self, requests: Sequence[Extend]) -> Command[list[Answer]]:
        """Extensions, several in a transaction: first in the leases' rows; then, as members, those
        of shares that are not there. A transaction locks rows in the order of their names, so that
        no two wait for each other."""
        done: set[str] = set()
        by_name = sorted(requests, key=lambda request: request.key)
        exclusive = [each for each in by_name if each.shares == 1]
        shares = [each for each in by_name if each.shares != 1]
        for leases in (exclusive, shares):
            for first in range(0, len(leases), LEASES_AT_ONCE):
                done |= yield from self._extend_leases(leases[first : first + LEASES_AT_ONCE])
        members = [each for each in shares if each.holder not in done]
        for first in range(0, len(members), MEMBERS_AT_ONCE):
            some = members[first : first + MEMBERS_AT_ONCE]
            done |= yield from self._extend_each(some, self._sql.prolong, self._texts_of_prolong)
        return [DONE if request.holder in done else NOT_YOURS for request in requests]

    def _extend_leases(self, requests: Sequence[Extend]) -> Command[set[str]]:
        """Gives the holders for which it was done. One statement does not tell which it found: if
        it has not found all, each has one of its own."""
        sql, ttls = self._sql, {each.ttl for each in requests}
        holders = [each.holder for each in requests]
        if sql.extend_many is not None and len(ttls) == 1 < len(requests):
            keys, ttl = [each.key for each in requests], _micro(ttls.pop())
            [rows] = yield self._statements(sql.extend_many, keys=keys, holders=holders, ttl=ttl)
            if len(rows) == len(requests):
                return set(holders)
        return (yield from self._extend_each(requests, sql.extend, (sql.extend,)))

    def _extend_each(
        self, requests: Sequence[Extend], extend: Text, texts: Sequence[Text]
    ) -> Command[set[str]]:
        """The same by these statements for each; `extend` is the one that gives a row."""
        statements: list[Statement] = []
        for each in requests:
            ttl = _micro(each.ttl)
            statements += self._statements(*texts, key=each.key, holder=each.holder, ttl=ttl)
        results = yield tuple(statements)
        extended = results[texts.index(extend) :: len(texts)]
        return {each.holder for each, rows in zip(requests, extended, strict=True) if rows}

    def _release(self, request: Release) -> Command[Answer]:
        """Free it, or offer it to the next waiter; leave the queue."""
        sql, key, holder = self._sql, request.key, request.holder
        if not self._waiters.place(holder):  # else others may wait, too
            [rows] = yield self._statements(sql.release, key=key, holder=holder)
            if rows:
                return DONE
        leave = self._statements(sql.leave, sql.free, key=key, holder=holder)
        if request.shares == 1:
            (_, freed), _ = yield from self._offer(key, leave)
            return DONE if freed else NOT_YOURS
        leave += self._statements(sql.remove, key=key, holder=holder)
        (_, freed, removed), _ = yield from self._offer_shares(key, leave)
        return DONE if freed or removed else NOT_YOURS

    def _offer(
        self, key: str, first: tuple[Statement, ...] = (), asker: Acquire | None = None
    ) -> Command[tuple[Results, State]]:
        """In one transaction: run `first`; then, if the lock is free, offer it to the first living
        waiter. If there are shares to offer, that is done in a second transaction. Gives the rows
        of `first`, and the state in the end, for that asker."""
        rows, state = yield from self._run_and_wake(self._texts_of_offer, key, first, asker)
        if state.has_shares:
            _, state = yield from self._offer_shares(key, (), asker)
        return rows, state

    def _offer_shares(
        self, key: str, first: tuple[Statement, ...] = (), asker: Acquire | None = None
    ) -> Command[tuple[Results, State]]:
        """The same, but waiters that may share the lock are admitted in the same transaction."""
        return self._run_and_wake(self._texts_of_offer_shares, key, first, asker)

    def _run_and_wake(
        self,
        texts: tuple[tuple[Text, ...], tuple[Text, ...]],
        key: str,
        first: tuple[Statement, ...],
        asker: Acquire | None,
    ) -> Command[tuple[Results, State]]:
        """Run `first` in the middle of these, and wake those to which the lock is offered. If some
        turn out to be dead, take them out, and offer it again."""
        sql, (before, after) = self._sql, texts
        holder, shares = ("", 0) if asker is None else (asker.holder, asker.shares)
        values = {"key": key, "holder": holder, "shares": shares}
        rows: Results | None = None
        while True:
            results = yield (
                *self._statements(*before, **values),
                *first,
                *self._statements(*after, **values),
            )
            if rows is None:
                rows = results[len(before) : len(before) + len(first)]
            found = dict(zip(after, results[-len(after) :], strict=True))
            [row] = results[-1]
            offered = found.get(sql.woken, []) + found[sql.heads]
            waiters = [(as_text(each[0]), as_text(each[1])) for each in offered]
            dead = [each for each in waiters if not self._waiters.wake(*each)]
            if not dead or sql.forget is None:
                return rows, State.of(row)
            gone, first = (sql.forget, sql.free, sql.remove), ()
            for holder, listener in dead:
                first += self._statements(*gone, key=key, holder=holder, listener=listener)

    def _break(self, request: Break) -> Command[Answer]:
        key, only = request.key, request.holder or None
        if not request.is_text:
            only = "\0"  # holders are kept as text, and none is called so
        [rows] = yield self._statements(self._sql.take_away, key=key, only=only)
        if rows:
            yield from self._offer(key)
            return DONE
        if only is None:
            return NOT_YOURS
        removing = self._statements(self._sql.remove, key=key, holder=only)
        [removed], _ = yield from self._offer_shares(key, removing)
        return DONE if removed else NOT_YOURS

    def _list(self, text: Text, **values: Any) -> Command[Answer]:
        [rows] = yield self._statements(text, **values)
        return Listing(tuple(_seen(list(each)) for _, each in groupby(rows, lambda row: row[0])))

    def _read(self, request: Read) -> Command[Answer]:
        [rows] = yield self._statements(self._sql.cell, key=request.key)
        if not rows:
            return Versioned(None, 0)
        value, is_text, version = rows[0]
        return Versioned(bytes(value).decode() if is_text else bytes(value), version)

    def _write(self, request: Write) -> Command[Answer]:
        sql = self._sql.set_cell if request.expect else self._sql.make_cell
        is_text = isinstance(request.value, str)
        value = request.value.encode() if isinstance(request.value, str) else request.value
        [rows] = yield self._statements(
            sql, key=request.key, value=value, is_text=is_text, expect=request.expect
        )
        return DONE if rows else CHANGED

    def _lock_wait(self, until: float) -> float:
        """How long to wait for a locked row, in seconds."""
        return round(max(0.01, min(LONGEST_LOCK_WAIT, (until - self._clock.ours()) / 4)), 3)

    def _statements(self, *texts: Text, **values: Any) -> tuple[Statement, ...]:
        """These statements, each with those of the values that it names."""
        values |= self._clock.values() | CONSTANTS
        return tuple([text.fill(values) for text in texts])


def _seen(rows: list[Row]) -> Seen:
    """One lock, from a row for each of its holders."""
    key, _, fence, _, waiters, shares = rows[0]
    (holder, remaining), *others = (
        (as_text(holder), max(0, remaining) / MICROSECONDS) for _, holder, _, remaining, *_ in rows
    )
    return Seen(as_text(key), holder, fence, remaining, waiters, shares, tuple(others))


def _held_by_another(request: Acquire, state: State) -> Held | None:
    if state.owner in ("", request.holder) or not 0 < state.remaining <= state.ttl:
        return None
    return Held(state.remaining, wakes=False)


def _micro(seconds: float) -> int:
    return round(seconds * MICROSECONDS)


CONSTANTS = {
    "offer": _micro(OFFER),
    # A waiter that claims to live longer was marked before the clock was set back. Twice as long: a
    # statement may have begun before the waiter was marked, and goes by the clock of its beginning.
    "life": _micro(2 * LONGEST_LIFE),
    "longest_life": _micro(LONGEST_LIFE),
    "marker": MARKER,
}
