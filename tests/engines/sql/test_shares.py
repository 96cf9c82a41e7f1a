"""Locks that several hold at once, over a clock that the test turns: any requests, in any order.
PostgreSQL is the simulator's here."""

import random
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from typing import Any, TypeVar

import pytest

from holdfast.core.effects import perform
from holdfast.core.messages import (
    DONE,
    Acquire,
    Answer,
    Break,
    Extend,
    Failed,
    Granted,
    Held,
    Inspect,
    Listing,
    Release,
    Request,
)
from holdfast.engines.sql.commands import POLL, Commands
from holdfast.engines.sql.dialect import (
    LEASES,
    MARKER,
    MICROSECONDS,
    BootClock,
    Command,
    Dialect,
    Results,
    ServerClock,
    Statement,
    Text,
)
from holdfast.engines.sql.mysql import commands as mysql
from holdfast.engines.sql.sqlite import commands as sqlite
from holdfast.engines.sql.sqlite.connection import rows_of
from holdfast.engines.sql.waiters import Waiters
from holdfast.lab.simulator.sql.server import STATEMENTS, Database

KEY = "job"

T = TypeVar("T")


class Listening(Waiters):
    """Waiters that are woken, and do not poll."""

    def listener(self) -> tuple[str, int]:
        return "somewhere", 1


class Base:
    """A database with a clock that is turned, and clients of it."""

    dialect: Dialect
    close: Callable[[], None]

    def __init__(self) -> None:
        self.now = 1000.0
        self.between: Callable[[], None] = lambda: None
        """Called after each transaction of a request."""
        self.clients = [self.client(listens) for listens in (True, True, False)]

    def client(self, listens: bool = False) -> Commands:
        waiters = (Listening if listens else Waiters)(lambda: self.now, lambda _: None)
        return Commands("here", self.dialect, self.clock(), waiters)

    def clock(self) -> Any:
        raise NotImplementedError

    def run(self, statements: tuple[Statement, ...]) -> Results:
        raise NotImplementedError

    def ask(self, request: Request, client: Commands | None = None) -> Answer:
        client = client or self.clients[0]
        if isinstance(request, Extend):
            [answer] = self.perform(client.extend_all([request]))
        else:
            answer = self.perform(client.answer(request, 10**9))
        assert not isinstance(answer, Failed), answer
        if isinstance(request, Release):
            client._waiters.released(request.holder)
        return answer

    def perform(self, command: Command[T]) -> T:
        self.sent: list[int] = []
        """How many statements each transaction had."""
        try:
            statements = next(command)
            while True:
                self.sent.append(len(statements))
                results = self.run(statements)
                self.between()
                statements = command.send(results)
        except StopIteration as stop:
            result: T = stop.value
        return result


class Sqlite(Base):
    dialect = sqlite.DIALECT

    def __init__(self) -> None:
        self._file = sqlite3.connect(":memory:", isolation_level=None)
        self.close = self._file.close
        self._file.executescript(sqlite.SCHEMA)
        self._file.execute(sqlite.FIRST_USE, {"version": sqlite.VERSION, "boot": "boot"})
        super().__init__()

    def clock(self) -> BootClock:
        return BootClock(lambda: self.now, "boot")

    def run(self, statements: tuple[Statement, ...]) -> Results:
        return [rows_of(self._file.execute(text.sql, values)) for text, values in statements]


class Postgres(Base):
    dialect = STATEMENTS.dialect

    def __init__(self) -> None:
        self._data = Database(
            lambda: round(self.now * MICROSECONDS), lambda *_: None, lambda _: True
        )
        self.close = self._data.close
        super().__init__()

    def clock(self) -> ServerClock:
        return ServerClock(lambda: self.now)

    def run(self, statements: tuple[Statement, ...]) -> Results:
        return self._data.run(statements, 1)


@pytest.fixture(params=[Sqlite, Postgres], ids=["sqlite", "postgres"])
def base(request: pytest.FixtureRequest) -> Iterator[Base]:
    made: Base = request.param()
    yield made
    made.close()


def fence(answer: Answer) -> int:
    assert isinstance(answer, Granted), answer
    return answer.fence


def members(base: Base) -> list[str]:
    listing = base.ask(Inspect(KEY))
    assert isinstance(listing, Listing)
    return sorted(
        holder
        for seen in listing.leases
        for holder in (seen.holder, *(holder for holder, _ in seen.others))
    )


class Crowd:
    """Clients that ask for anything, and what must be true of their leases."""

    def __init__(self, base: Base, chance: random.Random) -> None:
        self.base, self.chance = base, chance
        self.asked: dict[str, tuple[int, Commands, float]] = {}
        """By holder id, of those that wait: what they ask for."""
        self.leases: dict[str, tuple[int, Commands, float]] = {}
        """By holder id: the shares, the client, and until when the lease is valid."""
        self.ends: dict[str, float] = {}
        """By holder id: when it has ended in the database, at the latest."""
        self.fences: dict[bool, list[int]] = {False: [], True: []}
        """Of leases, by whether they are exclusive."""
        self.count = 0
        self.busy: set[str] = set()
        """Holder ids with a request under way."""
        base.between = self.interrupt

    def interrupt(self) -> None:
        """Between two transactions of a request, others may ask for anything."""
        while len(self.busy) < 4 and self.chance.random() < 0.15:
            self.step()

    def any_of(self, holders: Iterable[str]) -> str | None:
        """One that has no request under way."""
        free = sorted(set(holders) - self.busy)
        return self.chance.choice(free) if free else None

    def step(self) -> None:
        match self.chance.randrange(8):
            case 0 | 1 | 2:
                self.count += 1
                shares = self.chance.choice((0, 0, 1, 1, 2, 3))
                client = self.chance.choice(self.base.clients)
                ttl = self.chance.choice((0.3, 1.0, 5.0))
                self.ask(f"h{self.count}", shares, client, ttl, queue=self.chance.random() < 0.7)
            case 3 | 4 if holder := self.any_of(self.asked):
                self.ask(holder, *self.asked[holder], queue=True)
            case 5 if holder := self.any_of(self.leases):
                self.extend(holder)
            case 6 if holder := self.any_of([*self.leases, *self.asked]):
                self.release(holder)
            case _:
                self.base.now += self.chance.choice((0.001, 0.1, 0.6, 1.5))

    @contextmanager
    def request(self, holder: str) -> Iterator[float]:
        """Gives the instant before the request."""
        self.busy.add(holder)
        yield self.base.now
        self.busy.remove(holder)

    def ask(self, holder: str, shares: int, client: Commands, ttl: float, *, queue: bool) -> None:
        shared, exclusive = (max(self.fences[kind], default=0) for kind in (False, True))
        with self.request(holder) as began:
            request = Acquire(KEY, holder, ttl, queue=queue, shares=shares)
            answer = self.base.ask(request, client)
        if isinstance(answer, Held):
            if queue:
                self.asked[holder] = shares, client, ttl
            return
        self.asked.pop(holder, None)
        self.leases[holder] = shares, client, began + ttl
        self.ends[holder] = self.base.now + ttl
        kinds = [each[0] for each in self.leases.values() if each[2] > self.base.now]
        assert len(set(kinds)) <= 1, "those with other shares are there"
        assert not any(kinds) or len(kinds) <= kinds[0]
        assert fence(answer) > (max(shared, exclusive) if shares == 1 else exclusive)
        self.fences[shares == 1].append(fence(answer))

    def extend(self, holder: str) -> None:
        shares, client, valid_until = self.leases[holder]
        with self.request(holder) as began:
            is_done = self.base.ask(Extend(KEY, holder, 1.0, shares=shares), client) is DONE
        if is_done:
            assert self.ends[holder] > began, "an expired lease came back"
            self.leases[holder] = shares, client, max(valid_until, began + 1.0)
            self.ends[holder] = max(self.ends[holder], self.base.now + 1.0)
        else:
            assert valid_until <= self.base.now, "a valid lease was lost"
            del self.leases[holder]

    def release(self, holder: str) -> None:
        shares, client, valid_until = (
            self.leases.pop(holder)
            if holder in self.leases
            else (*self.asked.pop(holder)[:2], -inf)
        )
        with self.request(holder):
            is_done = self.base.ask(Release(KEY, holder, shares=shares), client) is DONE
        assert is_done or valid_until <= self.base.now, "a valid lease was lost"

    def end(self) -> None:
        """All that hold release; then all that wait must get it."""
        self.base.between = lambda: None
        for _ in range(100):
            for holder in list(self.leases):
                self.release(holder)
            for holder, asked in list(self.asked.items()):
                self.ask(holder, *asked, queue=True)
            if not self.asked and not self.leases:
                break
            self.base.now += 0.1
        assert not self.asked, "they wait in vain"
        assert members(self.base) == []


@pytest.mark.parametrize("seed", range(10))
def test_any_requests_in_any_order(base: Base, seed: int) -> None:
    crowd = Crowd(base, random.Random(seed))
    for _ in range(60):
        crowd.step()
    crowd.end()


@pytest.mark.parametrize("shares", [1, 0, 2])
def test_a_lock_that_one_has_alone_has_one_statement_for_each_request(
    base: Base, shares: int
) -> None:
    for request in (
        Acquire(KEY, "ann", 5.0, shares=shares),
        Extend(KEY, "ann", 5.0, shares=shares),
        Release(KEY, "ann", shares=shares),
    ):
        base.ask(request)
        assert base.sent == [1]


def test_the_second_one_finds_the_first_one(base: Base) -> None:
    first = fence(base.ask(Acquire(KEY, "ann", 5.0, shares=2)))
    assert fence(base.ask(Acquire(KEY, "ann", 5.0, shares=2))) == first
    assert isinstance(base.ask(Acquire(KEY, "dora", 5.0, shares=3), base.clients[1]), Held)
    assert fence(base.ask(Acquire(KEY, "ben", 5.0, shares=2), base.clients[1])) == first
    assert isinstance(base.ask(Acquire(KEY, "cleo", 5.0, shares=2), base.clients[2]), Held)
    assert fence(base.ask(Acquire(KEY, "ann", 5.0, shares=2))) == first
    assert base.ask(Extend(KEY, "ann", 5.0, shares=2)) is DONE
    assert base.ask(Release(KEY, "ann", shares=2)) is DONE
    assert members(base) == ["ben"]
    base.now += 5.1
    assert fence(base.ask(Acquire(KEY, "cleo", 5.0, shares=2), base.clients[2])) > first


def test_one_that_has_it_alone_is_known_to_all_clients(base: Base) -> None:
    """Also to one that has not asked for the share itself."""
    ann, ben, _ = base.clients
    fence(base.ask(Acquire(KEY, "ann", 1.0, shares=2), ann))
    listing = base.ask(Inspect(KEY), ben)
    assert isinstance(listing, Listing)
    assert (listing.leases[0].holder, listing.leases[0].shares) == ("ann", 2)
    assert base.ask(Extend(KEY, "ann", 5.0, shares=2), ben) is DONE
    assert base.ask(Break(KEY, "another"), ben) is not DONE
    assert base.ask(Break(KEY, "ann"), ben) is DONE
    assert base.ask(Extend(KEY, "ann", 5.0, shares=2), ann) is not DONE
    fence(base.ask(Acquire(KEY, "ann", 1.0, shares=2), ann))
    assert base.ask(Release(KEY, "ann", shares=2), ben) is DONE
    assert members(base) == []


def test_readers_behind_a_writer_that_gave_up_join_the_one_before_it(base: Base) -> None:
    ann, ben, cleo = base.clients
    first = fence(base.ask(Acquire(KEY, "ann", 5.0, shares=0), ann))
    assert isinstance(base.ask(Acquire(KEY, "writer", 5.0, queue=True), ben), Held)
    assert isinstance(base.ask(Acquire(KEY, "cleo", 5.0, queue=True, shares=0), cleo), Held)
    base.ask(Release(KEY, "writer"), ben)
    assert fence(base.ask(Acquire(KEY, "cleo", 5.0, queue=True, shares=0), cleo)) == first
    assert members(base) == ["ann", "cleo"]


def test_readers_that_were_too_many_for_one_transaction_are_admitted_by_the_next(
    base: Base,
) -> None:
    fence(base.ask(Acquire(KEY, "writer", 60.0)))
    readers = [Acquire(KEY, f"reader {n:03}", 60.0, queue=True, shares=0) for n in range(105)]
    for request in readers:
        assert isinstance(base.ask(request), Held)
    base.ask(Release(KEY, "writer"))
    assert members(base) == [request.holder for request in readers[:100]]
    fence(base.ask(readers[0]))
    assert members(base) == [request.holder for request in readers]


def test_one_that_asks_again_gets_its_time_also_if_the_servers_clock_was_set() -> None:
    """What was sent is too late by that clock, and does nothing."""
    base = Postgres()
    for holder in "ab":
        base.ask(Acquire(KEY, holder, 10.0, shares=2))
    base.now += 6
    clock = ServerClock(lambda: base.now - 5)
    client = Commands("here", base.dialect, clock, Waiters(clock.ours, lambda _: None))
    again = client.answer(Acquire(KEY, "b", 10.0, queue=True, shares=2), clock.ours() + 2)
    assert isinstance(base.perform(again), Granted)
    base.now += 6
    assert members(base) == ["b"]


def test_one_that_has_the_lock_and_asks_again_too_late_asks_once_more() -> None:
    """On MySQL, which reads the row afterwards: that it has the lock does not show that its time
    was counted anew."""
    sql = mysql.Statements(LEASES, returns=False).dialect
    clock = ServerClock(lambda: 1000.0)
    client = Commands("here", sql, clock, Waiters(clock.ours, lambda _: None))
    ahead = (7, 1060 * MICROSECONDS, MICROSECONDS, 10 * MICROSECONDS, "ann")
    command = client.answer(Acquire(KEY, "ann", 10.0), 1002.0)
    deadlines = []
    with suppress(StopIteration):
        statements = next(command)
        while True:
            for text, values in statements:
                if text is sql.acquire:
                    deadlines.append(values[text.names.index("deadline")])
            rows = [[(1,)] if text is sql.acquire else [ahead] for text, _ in statements]
            statements = command.send(rows)
    assert deadlines == [1002 * MICROSECONDS, 1062 * MICROSECONDS]


def test_one_that_has_the_lock_and_asks_again_to_no_effect_is_not_granted_it() -> None:
    """On MySQL, where a request skips a row that another one locks: that it has the lock, perhaps
    with its time over, is no grant."""
    sql = mysql.Statements(LEASES, returns=False).dialect
    clock = ServerClock(lambda: 1000.0)
    client = Commands("here", sql, clock, Waiters(clock.ours, lambda _: None))
    mine = (1000 * MICROSECONDS, -MICROSECONDS, 10 * MICROSECONDS, "ann")
    rows = {sql.acquire: [], sql.look: [(None, *mine)]}
    answer = perform(
        client.answer(Acquire(KEY, "ann", 10.0, once=True), 1002.0),
        lambda statements: [rows.get(text, [(7, *mine)]) for text, _ in statements],
    )
    assert not isinstance(answer, Granted)


def test_a_waiter_that_gave_up_does_not_join_late() -> None:
    """A server that was stopped carries out its request after its release. Its process lives, so
    the writer would keep readers out for as long as another one holds the lock."""
    base = Postgres()
    _, ben, cleo = base.clients
    fence(base.ask(Acquire(KEY, "ann", 60.0, shares=0)))
    late = next(ben.answer(Acquire(KEY, "ben", 60.0, queue=True), base.now + 5.0))
    assert base.ask(Release(KEY, "ben"), ben) is not DONE
    base.now += 5.1
    base.run(late)
    fence(base.ask(Acquire(KEY, "cleo", 60.0, shares=0), cleo))


@pytest.mark.parametrize("shares", [1, 0])
def test_a_waiter_that_gave_up_is_not_offered_a_free_lock_late(shares: int) -> None:
    """It would keep others out for a moment."""
    base = Postgres()
    _, ben, cleo = base.clients
    fence(base.ask(Acquire(KEY, "ann", 60.0)))
    request = Acquire(KEY, "ben", 60.0, queue=True, shares=shares)
    late = next(ben.answer(request, base.now + 5.0))
    assert base.ask(Release(KEY, "ann")) is DONE
    base.now += 5.1
    base.run(late)
    fence(base.ask(Acquire(KEY, "cleo", 60.0), cleo))


def test_a_waiter_joins_also_if_the_servers_clock_was_set() -> None:
    """The first request is too late by that clock, and does nothing."""
    base = Postgres()
    fence(base.ask(Acquire(KEY, "ann", 60.0)))
    clock = ServerClock(lambda: base.now - 60)
    client = Commands("here", base.dialect, clock, Waiters(clock.ours, lambda _: None))
    waiting = client.answer(Acquire(KEY, "ben", 60.0, queue=True), clock.ours() + 2)
    assert isinstance(base.perform(waiting), Held)
    listing = base.ask(Inspect(KEY))
    assert isinstance(listing, Listing)
    assert [seen.waiters for seen in listing.leases] == [1]


@pytest.mark.parametrize("shares", [2, 1], ids=["semaphore", "writer"])
def test_a_waiter_polls_while_its_listener_is_taken_for_dead(shares: int) -> None:
    """As after a failover: the new server knows of no such process, and the old one, which is cut
    off, has yet to be given up."""
    base = Postgres()
    base._data = Database(lambda: round(base.now * MICROSECONDS), lambda *_: None, lambda _: False)
    for holder in ("ann", "ben"):
        fence(base.ask(Acquire(KEY, holder, 60.0, shares=2)))
    cleo = base.clients[1]
    request = Acquire(KEY, "cleo", 60.0, queue=True, shares=shares)
    for _ in range(2):
        assert base.ask(request, cleo) == Held(POLL, wakes=False)
        found = base.ask(Inspect(KEY))
        assert isinstance(found, Listing)
        assert found.leases[0].waiters == 1
    for holder in ("ann", "ben"):
        base.ask(Release(KEY, holder, shares=2))
    fence(base.ask(request, cleo))


def test_waiters_that_come_back_after_the_clock_was_set_back_have_places_of_their_own() -> None:
    """Two of different kinds with one place would keep the lock from each other."""
    base, skew = Postgres(), 0.0
    base._data = Database(
        lambda: round((base.now + skew) * MICROSECONDS), lambda *_: None, lambda _: True
    )
    x, f, w, r = (base.client() for _ in range(4))

    def queue(holder: str, client: Commands, shares: int = 1) -> Answer:
        return base.ask(Acquire(KEY, holder, 5.0, queue=True, shares=shares), client)

    base.ask(Acquire(KEY, "x", 60.0), x)
    queue("f", f)
    skew = -100.0
    queue("writer", w)
    base.now += 7  # both were stopped for so long that they are out of the queue
    base.ask(Release(KEY, "x"), x)
    base.ask(Acquire(KEY, "y", 60.0), x)
    queue("f", f)
    queue("reader", r, shares=0)
    queue("writer", w)
    base.ask(Release(KEY, "f"), f)
    base.ask(Release(KEY, "y"), x)
    served = {}
    for _ in range(100):
        base.now += 0.1
        for holder, client, shares in (("writer", w, 1), ("reader", r, 0)):
            if holder not in served and isinstance(
                answer := queue(holder, client, shares), Granted
            ):
                served[holder] = answer
                base.ask(Release(KEY, holder, shares=shares), client)
    assert served.keys() == {"writer", "reader"}


def test_many_members_are_extended_in_one_transaction(base: Base) -> None:
    ann, ben, _ = base.clients
    requests = []
    for number in range(12):
        key, holder = f"{KEY} {number}", f"ann {number}"
        fence(base.ask(Acquire(key, f"ben {number}", 5.0, shares=0), ben))
        fence(base.ask(Acquire(key, holder, 1.0, shares=0), ann))
        requests.append(Extend(key, holder, 5.0, shares=0))
    assert base.ask(Release(requests[7].key, requests[7].holder, shares=0), ben) is DONE
    requests.reverse()
    answers = base.perform(ann.extend_all(requests))
    assert [answer is DONE for answer in answers] == [number != 4 for number in range(12)]
    assert len(base.sent) <= 3, "all, and one more look for the one that was not found"
    base.now += 2.0
    assert base.ask(Extend(requests[0].key, requests[0].holder, 1.0, shares=0), ann) is DONE


def test_a_client_is_kept_out_until_the_shares_have_expired(base: Base) -> None:
    """It finds what is left of them when it takes the whole lock."""
    first = fence(base.ask(Acquire(KEY, "ann", 5.0, shares=0)))
    fence(base.ask(Acquire(KEY, "ben", 1.0, shares=0), base.clients[1]))
    for holder in ("dora", MARKER + "!"):
        assert isinstance(base.ask(Acquire(KEY, holder, 5.0), base.clients[2]), Held)
        assert base.ask(Extend(KEY, holder, 5.0), base.clients[2]) is not DONE
        assert base.ask(Release(KEY, holder), base.clients[2]) is not DONE
    assert members(base) == ["ann", "ben"]
    base.now += 5.1
    greater = fence(base.ask(Acquire(KEY, "dora", 5.0), base.clients[2]))
    assert greater > first
    assert base.ask(Extend(KEY, "ann", 5.0, shares=0)) is not DONE
    assert base.ask(Release(KEY, "dora"), base.clients[2]) is DONE
    assert base.ask(Extend(KEY, "ann", 5.0, shares=0)) is not DONE, "a row that was left behind"
    assert fence(base.ask(Acquire(KEY, "cleo", 5.0, shares=2))) > greater
    assert members(base) == ["cleo"]


@pytest.mark.parametrize("shares", [0, 3, 1])
@pytest.mark.parametrize("client", [1, 2], ids=["listens", "polls"])
def test_a_client_that_forgot_its_place_takes_what_it_is_offered(
    base: Base, shares: int, client: int
) -> None:
    """The reply to its join was lost. (Another client stands for it, which knows of no place.)"""
    fence(base.ask(Acquire(KEY, "ben", 5.0)))
    request = Acquire(KEY, "ann", 5.0, queue=True, shares=shares)
    assert isinstance(base.ask(request), Held)
    base.ask(Release(KEY, "ben"))
    fence(base.ask(request, base.clients[client]))


@pytest.mark.parametrize("shares", [1, 0, 3])
@pytest.mark.parametrize("client", [0, 2], ids=["listens", "polls"])
def test_a_lock_whose_row_was_deleted_is_taken_without_a_place(shares: int, client: int) -> None:
    base = Sqlite()
    fence(base.ask(Acquire(KEY, "ann", 5.0), base.clients[1]))
    base.run((Text("DELETE FROM holdfast_leases", "qmark")(),))
    request = Acquire(KEY, "ben", 5.0, queue=True, shares=shares)
    fence(base.ask(request, base.clients[client]))
    listing = base.ask(Inspect(KEY))
    assert isinstance(listing, Listing)
    [seen] = listing.leases
    assert (seen.holder, seen.waiters) == ("ben", 0)
    base.close()


def test_the_room_of_a_member_that_died_goes_to_the_first_waiter(base: Base) -> None:
    for holder, ttl in (("ann", 1.0), ("ben", 60.0)):
        fence(base.ask(Acquire(KEY, holder, ttl, shares=2)))
    held = base.ask(Acquire(KEY, "cleo", 5.0, queue=True, shares=2))
    assert isinstance(held, Held)
    assert 0 < held.remaining <= 1.0, "it asks again when the first of them ends"
    base.now += 1.1
    assert isinstance(base.ask(Acquire(KEY, "dora", 5.0, shares=2)), Held), "cleo came before"
    assert fence(base.ask(Acquire(KEY, "cleo", 5.0, queue=True, shares=2)))
    assert members(base) == ["ben", "cleo"]
    assert base.ask(Extend(KEY, "ann", 60.0, shares=2)) is not DONE


def test_a_writer_asks_again_when_the_first_reader_ends(base: Base) -> None:
    """The last one may be released before, and does not wake it while another is there."""
    for holder, ttl in (("ann", 1.0), ("ben", 60.0)):
        fence(base.ask(Acquire(KEY, holder, ttl, shares=0)))
    held = base.ask(Acquire(KEY, "cleo", 5.0, queue=True))
    assert isinstance(held, Held)
    assert 0 < held.remaining <= 1.0
    assert base.ask(Release(KEY, "ben", shares=0)) is DONE
    base.now += 1.1
    assert fence(base.ask(Acquire(KEY, "cleo", 5.0, queue=True)))


def test_an_offer_of_a_share_lapses(base: Base) -> None:
    fence(base.ask(Acquire(KEY, "ann", 5.0)))
    for holder in ("stopped", "ben"):
        assert isinstance(base.ask(Acquire(KEY, holder, 5.0, queue=True, shares=2)), Held)
    assert isinstance(base.ask(Acquire(KEY, "cleo", 5.0, queue=True)), Held)
    base.ask(Release(KEY, "ann"))
    assert members(base) == ["ben", "stopped"]
    assert fence(base.ask(Acquire(KEY, "ben", 5.0, queue=True, shares=2)))
    base.now += 0.6
    assert isinstance(base.ask(Acquire(KEY, "cleo", 5.0, queue=True)), Held)
    assert members(base) == ["ben"]
    base.ask(Release(KEY, "ben", shares=2))
    assert fence(base.ask(Acquire(KEY, "cleo", 5.0, queue=True)))


@pytest.mark.parametrize("shares", [0, 3])
@pytest.mark.parametrize("client", [1, 2], ids=["listens", "polls"])
def test_the_offer_of_a_share_that_nobody_takes_lapses_after_a_crash(
    base: Base, shares: int, client: int
) -> None:
    """The holder died, and the first waiter is stopped: it is the turn of the one behind it."""
    first = fence(base.ask(Acquire(KEY, "dead", 5.0)))
    waits = Acquire(KEY, "stopped", 60.0, queue=True, shares=shares)
    assert isinstance(base.ask(waits, base.clients[client]), Held)
    writer = Acquire(KEY, "writer", 5.0, queue=True)
    assert isinstance(base.ask(writer), Held)
    base.now += 5.1
    held = base.ask(writer)
    assert isinstance(held, Held)
    assert members(base) == ["stopped"]
    assert held.remaining > 0, "it asks again when the offer has lapsed"
    base.now += held.remaining + 0.1
    assert fence(base.ask(writer)) > first


def test_a_newcomer_in_the_queue_tries_only_if_the_lock_is_not_held(base: Base) -> None:
    """It has tried a moment ago, and a try keeps others from writing."""
    sent: list[Text] = []
    run = base.run

    def watch(statements: tuple[Statement, ...]) -> Results:
        sent.extend(text for text, _ in statements)
        return run(statements)

    base.run = watch  # type: ignore[method-assign]
    fence(base.ask(Acquire(KEY, "ann", 5.0)))
    assert base.dialect.acquire in sent
    sent.clear()
    assert isinstance(base.ask(Acquire(KEY, "ben", 5.0, queue=True)), Held)
    assert base.dialect.join in sent
    assert base.dialect.acquire not in sent
    base.now += 6
    assert fence(base.ask(Acquire(KEY, "ben", 5.0, queue=True)))


@pytest.mark.parametrize("moment", range(8))
def test_a_reader_leaves_during_the_request_of_a_writer(base: Base, moment: int) -> None:
    """It is the writer's turn then, and not that of the reader behind it."""
    ann, ben, cleo = base.clients
    fence(base.ask(Acquire(KEY, "reader", 5.0, shares=0), ann))
    assert isinstance(base.ask(Acquire(KEY, "writer", 5.0, queue=True), ben), Held)
    assert isinstance(base.ask(Acquire(KEY, "later", 5.0, queue=True, shares=0), cleo), Held)
    moments = iter(range(100))

    def between() -> None:
        if next(moments) == moment:
            assert base.ask(Release(KEY, "reader", shares=0), ann) is DONE

    base.between = between
    base.ask(Acquire(KEY, "writer", 5.0, queue=True), ben)
    base.between = lambda: None
    base.ask(Release(KEY, "reader", shares=0), ann)
    assert isinstance(base.ask(Acquire(KEY, "later", 5.0, queue=True, shares=0), cleo), Held)
    assert fence(base.ask(Acquire(KEY, "writer", 5.0, queue=True), ben))
    assert members(base) == ["writer"]
