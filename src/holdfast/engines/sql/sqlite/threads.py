"""The store of an SQLite file, for threads: one connection, used in turns.

A connection must never be carried into a forked child, not even unused: SQLite would assume that
the child has the file locks that only its parent has. So it is closed before every fork, and opened
again when it is needed.
"""

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from threading import get_ident
from typing import Any, TypeVar, cast
from weakref import ref

from holdfast.core.effects import pause_after
from holdfast.core.messages import DONE, Acquire, Answer, Extend, Failed, Granted, Release, Request
from holdfast.core.ports import Clock, Notify
from holdfast.engines.sql.commands import Commands
from holdfast.engines.sql.dialect import MICROSECONDS, BootClock, Command, Results, Statement
from holdfast.engines.sql.sqlite import commands as sql
from holdfast.engines.sql.sqlite.connection import (
    UnusableError,
    boot_id,
    connect,
    explain,
    is_busy,
    relax,
    rows_of,
)
from holdfast.engines.sql.sqlite.waiters import PipeWaiters, is_alive, sweep

T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE = 0.0001, 0.02
"""Another connection that is writing is done in microseconds."""

LEAST_TIME = 0.02
"""Meeting another writer is no failure, however little time is left."""

PRUNE_EVERY = 4096
"""Acquires between two looks for idle rows."""

WINDOW = 200
"""How many rows one such look takes in."""

IDLE = 3600 * MICROSECONDS
"""How long a row must have been of no use before it is pruned."""


class SqliteStore:
    """One SQLite file."""

    def __init__(self, path: Path, clock: Clock, notify: Notify) -> None:
        self._path = Path(os.path.realpath(path))  # its pipes are beside the file itself
        self._clock = clock
        self._waiters = PipeWaiters(self._path, clock, notify)
        self._begin()
        _forks.add(self)

    def _begin(self) -> None:
        self.mutex = threading.RLock()
        self._busy_thread = 0
        self._connection: sqlite3.Connection | None = None
        self._cursor: sqlite3.Cursor | None = None
        """For the statements of commands."""
        self._acquires, self._closed = 0, False

    def ask(self, requests: Sequence[Request], until: float) -> list[Answer]:
        """Answer each request, trying again until `until` while others are in the way."""
        if self._busy_thread == get_ident():
            return self._failed(requests, "its thread is in the middle of another request")
        try:
            answers = self._with_connection(self._answer, requests, until)
        except sqlite3.Error as error:
            return self._failed(requests, *explain(error))
        except (UnusableError, OSError) as error:
            return self._failed(requests, str(error), inf)
        if answers is None:
            return self._failed(requests, "other threads of this client keep it busy")
        return answers

    def ask_now(self, requests: Sequence[Request]) -> list[Answer] | None:
        """Answer without waiting for anything; None if that is not possible."""
        if self._connection is None or len(requests) != 1 or self._busy_thread:
            return None
        try:
            return self._with_connection(self._answer_now, requests, -inf)
        except sqlite3.Error:
            return None  # `ask` will meet it, too

    def _with_connection(
        self,
        answer: Callable[[Sequence[Request], float], list[Answer] | None],
        requests: Sequence[Request],
        until: float,
    ) -> list[Answer] | None:
        """Answer while no other thread uses the connection; None if one does until then."""
        me = get_ident()
        try:  # first, and then the mutex: a Ctrl-C in between would leave it locked
            if not self.mutex.acquire(blocking=False):
                seconds = max(0.0, until - self._clock())
                if not self.mutex.acquire(timeout=seconds):
                    return None
            self._busy_thread = me
            try:
                return answer(requests, until)
            except BaseException as error:
                if not (isinstance(error, sqlite3.Error) and is_busy(error)):
                    self.close_connection()
                raise
        finally:
            if self._busy_thread == me:
                self._busy_thread = 0
            try:  # noqa: SIM105 - a Ctrl-C within `suppress` would leave it locked
                self.mutex.release()
            except RuntimeError:
                pass  # not acquired

    def close(self) -> None:
        """Close the file and stop listening."""
        with self.mutex:
            self._closed = True
            self.close_connection()
        self._waiters.close()

    def forget(self) -> None:
        """In a forked child: the connection was closed before; the pipe is the parent's."""
        self._waiters.forget()
        self._begin()

    def close_connection(self) -> None:
        """Close the connection; the next request opens another. The cursor first: the traceback of
        an interruption may keep it, and then its transaction would not end."""
        if self._connection is not None:
            if self._cursor is not None:
                self._cursor.close()
            self._connection.close()
            self._connection = None

    def _answer(self, requests: Sequence[Request], until: float) -> list[Answer]:
        if self._connection is None:
            self._retry_while_locked(until, self._open)
        if type(requests[0]) is Extend:  # all are
            extensions = cast("Sequence[Extend]", requests)
            return self._run(self._commands.extend_all(extensions), until)
        return [self._answer_one(each, until) for each in requests]

    def _answer_now(self, requests: Sequence[Request], until: float) -> list[Answer] | None:
        answer = self._try_one_statement(requests[0])
        return None if answer is None else [answer]

    def _answer_one(self, request: Request, until: float) -> Answer:
        answer = self._retry_while_locked(until, self._try_one_statement, request)
        if answer is None:
            was_tried = type(request) is Acquire and not request.queue
            answer = self._run(self._commands.answer(request, until, was_tried=was_tried), until)
            if type(request) is Release:
                self._waiters.released(request.holder)
        return answer

    def _try_one_statement(self, request: Request) -> Answer | None:
        """The usual case, by one statement and without the generator of `Commands`, which takes
        longer. None if that did nothing, or the request needs more, or there is no connection."""
        connection, waiters, clock = self._connection, self._waiters, self._boot_clock
        if connection is None:
            return None
        if type(request) is Acquire:
            shares, holder = request.shares, request.holder
            if request.queue and (
                shares != 1 or not waiters.place(holder) or not waiters.listener()[0]
            ):
                return None
            self._acquires += 1
            if self._acquires % PRUNE_EVERY == 0:
                self._prune(connection)
            values = {
                "key": request.key,
                "holder": holder,
                "shares": shares,
                "ttl": round(request.ttl * MICROSECONDS),
                "now": clock.now(),
                "boot": clock.boot,
            }
            rows = connection.execute(sql.ACQUIRE, values).fetchall()
            return Granted(rows[0][0]) if rows else None
        if type(request) is Release and not waiters.place(request.holder):
            values = {
                "key": request.key,
                "holder": request.holder,
                "now": clock.now(),
                "boot": clock.boot,
            }
            return DONE if connection.execute(sql.RELEASE, values).rowcount > 0 else None
        return None

    def _run(self, command: Command[T], until: float) -> T:
        try:
            statements = next(command)
            while True:
                results = self._retry_while_locked(until, self._execute, statements)
                statements = command.send(results)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]  # it is a T

    def _execute(self, statements: Sequence[Statement]) -> Results:
        cursor = self._cursor
        assert cursor is not None  # noqa: S101 - it is open
        if len(statements) > 1:
            cursor.execute("BEGIN IMMEDIATE")
        results = [rows_of(cursor.execute(text.sql, values)) for text, values in statements]
        if len(statements) > 1:
            cursor.execute("COMMIT")
        return results

    def _retry_while_locked(self, until: float, work: Callable[..., T], *arguments: Any) -> T:
        """Call `work`, again and again while another connection has the file locked. A call that
        fails is rolled back."""
        tries = 0
        while True:
            try:
                return work(*arguments)
            except sqlite3.Error as error:
                if self._connection is not None and self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                now = self._clock()
                if tries == 0:
                    until = max(until, now + LEAST_TIME)
                if not is_busy(error) or now >= until:
                    raise
            pause = pause_after(tries, random.uniform, FIRST_PAUSE, LONGEST_PAUSE)
            time.sleep(min(pause, until - now))
            tries += 1

    def _open(self) -> None:
        if self._closed:
            raise UnusableError("this client is closed")
        connection = connect(self._path)
        try:
            self._set_up(connection)
        except BaseException:
            connection.close()
            raise
        self._connection, self._cursor = connection, connection.cursor()

    def _set_up(self, connection: sqlite3.Connection) -> None:
        boot = boot_id()
        connection.execute("BEGIN IMMEDIATE")
        _make_tables(connection, boot)
        connection.execute("COMMIT")
        relax(connection)
        self._boot_clock = BootClock(self._clock, boot)
        self._commands = Commands(str(self._path), sql.DIALECT, self._boot_clock, self._waiters)
        self._delete_dead_waiters(connection)
        self._prune(connection)

    def _delete_dead_waiters(self, connection: sqlite3.Connection) -> None:
        """Delete the waiters whose processes died."""
        sweep(self._path)
        for (listener,) in connection.execute(sql.LISTENERS).fetchall():
            if not is_alive(self._path, listener):
                connection.execute(sql.FORGET_LISTENER, (listener,))

    def _prune(self, connection: sqlite3.Connection) -> None:
        """Drop some rows that have long been of no use; their fences live on in the floor.

        It looks at a window of rows at a random place, so no index is needed and no scan is long.
        """
        ((last_row,),) = connection.execute(sql.LAST_ROW).fetchall()
        first = random.randint(2 - WINDOW, max(last_row, 1))  # noqa: S311 - no secret
        values = {
            "first": first,
            "last": first + WINDOW - 1,
            "before": self._boot_clock.now() - IDLE,
            "boot": self._boot_clock.boot,
        }
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(sql.RAISE_FLOOR, values)
        connection.execute(sql.PRUNE, values)
        connection.execute("COMMIT")

    def _failed(
        self, requests: Sequence[Request], why: str, heals: float | None = None
    ) -> list[Answer]:
        return [Failed.at(str(self._path), why, heals)] * len(requests)


def _make_tables(connection: sqlite3.Connection, boot: str) -> None:
    """Make the tables, unless they are there, within a transaction."""
    for statement in sql.SCHEMA.split(";"):
        connection.execute(statement)
    values = {"version": sql.VERSION, "boot": boot}
    connection.execute(sql.FIRST_USE, values)
    ((version, last_boot),) = connection.execute(sql.FILE).fetchall()
    if version != sql.VERSION:
        raise UnusableError(
            f"another version of holdfast made it (format {version}, this one reads "
            f"{sql.VERSION}); use that version, or name another file"
        )
    if last_boot != boot:
        connection.execute(sql.NEW_BOOT, values)


class _Forks:
    """Closes every connection before a fork. Threads that fork at the same time take turns."""

    def __init__(self) -> None:
        self._stores: list[ref[SqliteStore]] = []
        self._stopped: list[SqliteStore] = []
        self._turn = threading.Lock()

    def add(self, store: SqliteStore) -> None:
        self._stores.append(ref(store, self._stores.remove))  # needs no lock, also in a child

    def before(self) -> None:
        self._turn.acquire()
        for reference in list(self._stores):
            store = reference()
            if store is not None:
                store.mutex.acquire()
                self._stopped.append(store)
                store.close_connection()

    def after_in_parent(self) -> None:
        while self._stopped:
            self._stopped.pop().mutex.release()
        self._turn.release()

    def after_in_child(self) -> None:
        self._stopped.clear()
        self._turn = threading.Lock()


_forks = _Forks()

os.register_at_fork(
    before=_forks.before,
    after_in_parent=_forks.after_in_parent,
    after_in_child=_forks.after_in_child,
)
