"""What a kind of database has: statements, tables and a clock. Pure."""

import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from holdfast.core.ports import Clock

MICROSECONDS = 1_000_000

LEASES = "holdfast_leases"
CELLS = "holdfast_cells"

MARKER = "(shared)"
"""The holder in the row of a shared lock. Holder ids are longer."""

VERSION = 4
"""Of a server's tables."""

_WORD = "[A-Za-z_][A-Za-z0-9_]{0,54}"
"""PostgreSQL cuts names at 63 bytes, MariaDB refuses more than 64, and `_waiters` is added."""

_VALUE = re.compile(r":([a-z_]+)")

_TABLE = re.compile(rf"(?:({_WORD})\.)?({_WORD})")

Row: TypeAlias = tuple[Any, ...]


def with_marks(sql: str, paramstyle: str) -> tuple[str, tuple[str, ...]]:
    """A statement with named values (`:key`) in another style, and the names in the order of their
    values: of those of PEP 249, and that of asyncpg by SQLAlchemy's name for it.

    >>> with_marks("SELECT :key, :fence, :key", "format")
    ('SELECT %s, %s, %s', ('key', 'fence', 'key'))
    >>> with_marks("SELECT :key, :fence, :key", "numeric_dollar")
    ('SELECT $1, $2, $1', ('key', 'fence'))
    """
    used = _VALUE.findall(sql)
    names = tuple(dict.fromkeys(used))
    marks: dict[str, Callable[[str], str]] = {
        "qmark": lambda name: "?",
        "numeric": lambda name: f":{names.index(name) + 1}",
        "named": lambda name: f":{name}",
        "format": lambda name: "%s",
        "pyformat": lambda name: f"%({name})s",
        "numeric_dollar": lambda name: f"${names.index(name) + 1}",
    }
    if paramstyle not in marks:
        raise ValueError(f"paramstyle: must be one of {', '.join(marks)}, got {paramstyle!r}")
    text = _VALUE.sub(lambda found: marks[paramstyle](found[1]), sql)
    return text, tuple(used) if paramstyle in ("qmark", "format") else names


def as_text(value: str | bytes) -> str:
    """A name, or a holder id, as a database gives it."""
    return value if isinstance(value, str) else bytes(value).decode()


class Text:
    """A statement of one dialect. Called with its values by name, it can be yielded."""

    __slots__ = ("by_name", "names", "skips_locked", "sql")

    def __init__(self, sql: str, paramstyle: str) -> None:
        """`sql` has named values (`:key`), and is sent in this style."""
        self.sql, self.names = with_marks(" ".join(sql.split()), paramstyle)
        self.by_name = paramstyle == "named"
        self.skips_locked = False
        """Whether meeting a locked row is no error, but finds nothing."""

    def __call__(self, **values: Any) -> "Statement":
        """The statement with these values."""
        return self.fill(values)

    def fill(self, values: Mapping[str, Any]) -> "Statement":
        """The statement with those of these values that it names, or with all by their names."""
        return self, values if self.by_name else [values[name] for name in self.names]


Statement: TypeAlias = tuple[Text, Any]
Results: TypeAlias = list[list[Row]]
T = TypeVar("T")
Command: TypeAlias = Generator[tuple[Statement, ...], Results, T]
"""Yields statements, and is sent their rows. Several yielded together are one transaction."""


@dataclass(slots=True)
class State:
    """How a lock stands, as the statements give it. The last three only `peek` knows."""

    fence: int | None
    """If the asker has the lock."""
    now: int
    remaining: float
    ttl: float
    owner: str
    """The holder in the row."""
    shares: int = 1
    """Those of the holder in the row, or of the members."""
    place: int = 0
    """The asker's, in the queue."""
    queued: bool = False
    is_member: bool = False
    has_room: bool = False
    is_first_alike: bool = False

    @classmethod
    def of(cls, row: Row) -> "State":
        """From a row of `acquire`, `verdict`, `look` or `peek`."""
        fence, now, remaining, ttl, owner, *rest = row
        shares, place, *facts = rest or (1, 0)
        return cls(
            fence,
            now,
            max(0, remaining or 0) / MICROSECONDS,
            (ttl or 0) / MICROSECONDS,
            "" if owner is None else as_text(owner),
            1 if shares is None else shares,
            place or 0,
            *map(bool, facts),
        )

    @property
    def may_enter(self) -> bool:
        """Whether the asker gets in if it asks again."""
        return self.is_member or (self.has_room and not self.queued)

    @property
    def is_shared(self) -> bool:
        """Whether one has it alone and shares it, or several have it."""
        return self.owner != "" and self.shares != 1

    @property
    def has_shares(self) -> bool:
        """Whether there may be shares to offer: the lock is free, or its last holder's time is
        over, and the first waiter wants one; or a member's time is over, or a waiter may join the
        members."""
        is_free = not self.owner or not self.remaining
        return (is_free or self.queued) if self.is_shared else (is_free and self.queued)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The statements of one kind of database. docs/statements/ has each in one piece.

    Those that change something give a row if they did. A *state* is (fence if granted else null,
    now, remaining, ttl, holder).
    """

    acquire: Text  # gives a state, or nothing
    look: Text
    """Gives a state, and behind it `shares` in the row, `place`, the asker's in the queue or null,
    and `queued`. Of a shared lock, `remaining` is that of the member whose lease ends first."""
    extend: Text
    release: Text  # of a lock without a queue
    adopt: Text  # counts a lease of another clock anew, and an offer to the asker
    join: Text
    """Takes a place in the queue, or takes it again: `place` is 0, or the one that it was. Not if
    the asker has the lock, or is offered it; nor after the deadline."""
    mark: Text  # marks in the lease's row that there is a queue
    touch: Text  # marks a waiter that polls as alive, if it has a place
    leave: Text  # gives the place up
    free: Text  # ends the holder's lease
    bury: Text  # deletes the dead waiters before the first living one, if the lock is not held
    offer: Text
    """Offers the lock to the first waiter, if it is free or expired; not if that waiter would share
    it. Without waiters, marks it as free."""
    heads: Text  # wakes the waiter that the lock was just offered to; gives (holder, listener)
    drop: Text  # takes the waiter that the lock is offered to out of the queue
    take_away: Text  # ends the lease of `only`, or of any holder if that is null
    inspect: Text  # gives (key, holder, fence, remaining, waiters, shares), a row for each holder
    listing: Text  # gives the same of each lock
    cell: Text  # gives (value, whether it is text, version) of a cell that was set
    make_cell: Text  # does nothing if there is such a cell
    set_cell: Text  # does nothing unless the version is the expected one
    # For locks that several hold at once, see `holdfast.engines.sql.statements`:
    reserve: Text  # locks the row; makes one that is free if there is none
    recount: Text  # counts members of another clock anew, and an offer to the asker
    expire: Text  # deletes members whose time is over, and all if the lock is not shared
    unfold: Text  # makes a member of one that has the lock alone, and shares it
    share: Text  # marks the row as shared then
    enter: Text  # makes the asker a member, by an offer, if there is room and no queue
    rise: Text  # gives a new fence if the asker is a member, and none has confirmed yet
    confirm: Text  # makes the asker's offer a lease, or extends its lease
    prolong: Text  # extends the lease of a member
    remove: Text  # ends the lease of a member
    admit: Text  # makes waiters members, by offers: the first one, and those that may share with it
    woken: Text  # wakes waiters that were just admitted; gives (holder, listener) of each
    drop_members: Text  # takes members out of the queue
    tally: Text  # brings the row up to date with the members: holder, expiry, whether one confirmed
    peek: Text
    """As `look`, with a fence if the asker is a confirmed member; and behind it whether the asker
    is a member, whether there is room for one more with these shares, and whether the first waiter
    wants the same."""
    # Where the database needs them:
    lock: Text | None = None  # locks the row; None where a transaction locks the whole database
    front: Text | None = None  # finds the first living waiter, where `bury` cannot
    verdict: Text | None = None  # gives the state, where `acquire` cannot
    extend_many: Text | None = None
    """Extends the leases of `holders` on `keys` with one ttl; gives a row for each. A holder id is
    of one lease alone, so it is not found at the name of another. None where many statements cost
    little more."""
    forget: Text | None = None  # deletes all waiters of a listener whose death only we can detect


class Statements:
    """All statements for one lease table. A dialect adds those that it alone has."""

    names: dict[str, str]
    """Of the tables, as they stand in SQL."""
    dialect: Dialect
    ddl: str
    version: Text
    """Gives the version of the tables."""


def table_names(table: str, quote: str, schema: str = "") -> dict[str, str]:
    """What texts call the tables that belong to `[schema.]table`, and their version.

    >>> table_names("locks", "`")["waiters"]
    '`locks_waiters`'
    >>> table_names("shop.locks", '"', "public")["waiters"]
    '"shop"."locks_waiters"'
    """
    found = _TABLE.fullmatch(table)
    if found is None:
        raise ValueError(
            "table: must be a name, or schema.name (MariaDB: database.name), of letters, digits "
            f"and _, each of at most 55 characters, got {table!r}"
        )
    schema, name = found[1] or schema, found[2]
    before = f"{quote}{schema}{quote}." if schema else ""
    return {
        "schema": schema,
        "plain": name,
        "leases": f"{before}{quote}{name}{quote}",
        "waiters": f"{before}{quote}{name}_waiters{quote}",
        "members": f"{before}{quote}{name}_members{quote}",
        "version": f"{before}{quote}{name}_version{quote}",
        "cells": f"{before}{quote}{CELLS}{quote}",
        "current": str(VERSION),
    }


class ServerClock:
    """That of a server: what it shows when ours shows an instant, or a little more."""

    def __init__(self, clock: Clock) -> None:
        self.ours = clock
        self._ahead = 0.0

    def values(self) -> dict[str, Any]:
        """The values of statements that depend on it: none, they read it themselves."""
        return {}

    def deadline(self, until: float) -> int:
        """What it shows at an instant of ours, in microseconds."""
        return round((until + self._ahead) * MICROSECONDS)

    def learn(self, asked_at: float, now: int) -> None:
        """It showed `now` some time after `asked_at`."""
        self._ahead = now / MICROSECONDS - asked_at


class BootClock:
    """That of the host since it was started, which is our own."""

    def __init__(self, clock: Clock, boot: str) -> None:
        self.ours, self.boot = clock, boot

    def now(self) -> int:
        """In microseconds, and never earlier than the clock."""
        return int(self.ours() * MICROSECONDS) + 1

    def values(self) -> dict[str, Any]:
        """The instant, and of which boot it is."""
        return {"now": self.now(), "boot": self.boot}

    def deadline(self, until: float) -> int:
        """None: what was sent too late cannot be executed later."""
        return 1 << 62

    def learn(self, asked_at: float, now: int) -> None:
        """There is nothing to learn: it is our own clock."""
