"""Saying the scripts to an SQLite file, by blocking. One connection, taken in turns.

A connection must never be carried into a forked child, not even unused: SQLite would believe that
the child has the file locks that only its parent has. So it is closed before every fork, and opened
again when it is needed.
"""

import os
import random
import sqlite3
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from weakref import ref

from holdfast.core.messages import Acquire, Answer, Extend, Failed, Request
from holdfast.core.ports import Clock, Notify
from holdfast.engines.sql.scripts import MICROSECONDS, Begin, Call, Commit, Row, Scripts, Step
from holdfast.engines.sql.sqlite import bells, statements
from holdfast.engines.sql.sqlite.file import (
    UnusableError,
    boot_id,
    connect,
    explain,
    is_busy,
    relax,
)

FIRST_PAUSE, LONGEST_PAUSE = 0.0005, 0.02
"""Another connection that is writing is done in microseconds."""

LEAST_PATIENCE = 0.02
"""To meet another writer is no failure, however little time is left."""

PRUNE_EVERY = 4096
"""Acquires between two looks for idle rows."""

WINDOW = 200
"""How many rows one such look takes in."""

IDLE = 3600 * MICROSECONDS
"""How long a row must have been of no use before it is pruned."""


class SqliteStore:
    """The way to one SQLite file for threads."""

    def __init__(self, path: Path, clock: Clock, notify: Notify) -> None:
        self._path, self._clock, self._notify = path, clock, notify
        self._begin()
        _forks.add(self)

    def _begin(self) -> None:
        self.mutex = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._cursor: sqlite3.Cursor | None = None
        self._bell: bells.Bell | None = None
        self._boot = ""
        self._acquires, self._closed = 0, False

    def ask(self, requests: Sequence[Request], until: float) -> list[Answer]:
        """Answer each request, trying again until `until` while others are in the way."""
        tries = 0
        while True:
            mine = False
            try:
                mine = self.mutex.acquire(False)
                if not mine:
                    mine = self.mutex.acquire(timeout=max(0.0, until - self._clock()))
                if not mine:
                    return self._failed(requests, "this client's other threads keep it busy")
                return self._answer(requests, until)
            except sqlite3.Error as error:
                now = self._clock()
                if tries == 0:
                    until = max(until, now + LEAST_PATIENCE)
                if not is_busy(error) or now >= until:
                    return self._failed(requests, explain(error))
            except (UnusableError, OSError) as error:
                return self._failed(requests, str(error))
            finally:
                if mine:
                    self.mutex.release()
            time.sleep(max(0.0, min(_pause(tries), until - self._clock())))
            tries += 1

    def close(self) -> None:
        """Close the file and take our bell away."""
        with self.mutex:
            self._closed = True
            self.close_connection()
            if self._bell is not None:
                self._bell.close()
                self._bell = None

    def forget(self) -> None:
        """In a forked child: the connection was closed before; the bell is the parent's."""
        if self._bell is not None:
            self._bell.forget()
        self._begin()

    def close_connection(self) -> None:
        """Close the connection; the next request opens another."""
        if self._connection is not None:
            self._cursor = None
            self._connection.close()
            self._connection = None

    def _answer(self, requests: Sequence[Request], until: float) -> list[Answer]:
        """Answer; or raise, and then nothing was done that must not be done again."""
        try:
            connection = self._connection or self._open()
            if len(requests) != 1:
                return self._say_all(connection, requests, until)
            [request] = requests
            answer = self._say_briefly(connection, request)
            return [answer or self._say(connection, request, until, patient=False)]
        except sqlite3.Error as error:
            if is_busy(error):
                self._roll_back()
            else:
                self.close_connection()
            raise
        except BaseException:
            self._roll_back()
            raise

    def _say_all(
        self, connection: sqlite3.Connection, requests: Sequence[Request], until: float
    ) -> list[Answer]:
        """Say several scripts, and renewals in one transaction."""
        if all(type(request) is Extend for request in requests):
            connection.execute("BEGIN IMMEDIATE")
        answers = [self._say(connection, each, until, patient=True) for each in requests]
        if connection.in_transaction:
            connection.execute("COMMIT")
        return answers

    def _say_briefly(self, connection: sqlite3.Connection, request: Request) -> Answer | None:
        """Say no more than the opening of a script; None if that is not enough."""
        if type(request) is Acquire:
            self._acquires += 1
            if self._acquires % PRUNE_EVERY == 0:
                self._prune(connection)
        if (opening := self._scripts.opening(request)) is None:
            return None
        sql, values = opening
        cursor = self._cursor or connection.cursor()  # to make one takes some 0.3 µs
        self._cursor = None  # a signal handler that asks in between needs another
        try:
            rows = cursor.execute(sql, values).fetchall()
        except BaseException:
            del cursor  # or the traceback would keep an unfinished statement alive
            raise
        if connection is self._connection:  # such a handler may have closed it
            self._cursor = cursor
        return self._scripts.conclude(request, rows)

    def _say(
        self, connection: sqlite3.Connection, request: Request, until: float, *, patient: bool
    ) -> Answer:
        """Say the script for a request. Whoever is in the way of its first step is the caller's to
        wait for; beyond that it is done here, since what was done must not be done again."""
        script = self._scripts.answer(request)
        step = script.send(None)
        while True:
            result = self._do(connection, step, until if patient else -inf)
            patient = True
            try:
                step = script.send(result)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]  # typed by Script

    def _do(self, connection: sqlite3.Connection, step: Step, until: float) -> list[Row] | bool:
        tries = 0
        while True:
            try:
                if isinstance(step, Call):
                    return bells.call(self._path, step.bell, step.holder)
                if isinstance(step, Begin):
                    return connection.execute("BEGIN IMMEDIATE").fetchall()
                if isinstance(step, Commit):
                    return connection.execute("COMMIT").fetchall()
                return connection.execute(*step).fetchall()
            except sqlite3.Error as error:
                if not is_busy(error) or self._clock() >= until:
                    raise
            time.sleep(_pause(tries))
            tries += 1

    def _open(self) -> sqlite3.Connection:
        if self._closed:
            raise UnusableError("this client is closed")
        self._path = self._path.resolve()  # whatever it is called: its bells hang beside the file
        connection = connect(self._path)
        try:
            self._set_up(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _set_up(self, connection: sqlite3.Connection) -> None:
        self._boot = boot_id()
        values = {"version": statements.VERSION, "boot": self._boot}
        connection.execute("BEGIN IMMEDIATE")
        for statement in statements.SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute(statements.FIRST_USE, values)
        ((version, boot),) = connection.execute(statements.FILE).fetchall()
        if version != statements.VERSION:
            raise UnusableError(
                f"another version of holdfast made it (format {version}, this one reads "
                f"{statements.VERSION}); use that version, or name another file"
            )
        if boot != values["boot"]:
            connection.execute(statements.NEW_BOOT, values)
        connection.execute("COMMIT")
        relax(connection)
        self._scripts = Scripts(statements.DIALECT, self._now, self._boot, self._bell_name)
        self._bury(connection)
        self._prune(connection)

    def _bury(self, connection: sqlite3.Connection) -> None:
        """Forget the waiters whose processes died."""
        bells.sweep(self._path)
        for (bell,) in connection.execute(statements.BELLS).fetchall():
            if not bells.is_alive(self._path, bell):
                connection.execute(statements.FORGET_BELL, (bell,))

    def _prune(self, connection: sqlite3.Connection) -> None:
        """Drop some rows that have long been of no use; their fences live on in the floor.

        It looks at a window of rows at a random place, so no index is needed and no scan is long.
        """
        ((last_row,),) = connection.execute(statements.LAST_ROW).fetchall()
        first = random.randint(2 - WINDOW, max(last_row, 1))  # noqa: S311 - no secret
        values = {
            "first": first,
            "last": first + WINDOW - 1,
            "before": self._now() - IDLE,
            "boot": self._boot,
        }
        connection.execute("BEGIN IMMEDIATE")
        idle = connection.execute(statements.PRUNABLE, values).fetchall()
        if idle:
            highest = max(fence for _, fence in idle)
            connection.execute(statements.RAISE_FLOOR, {"fence": highest})
            connection.executemany(statements.PRUNE, [(rowid,) for rowid, _ in idle])
        connection.execute("COMMIT")

    def _roll_back(self) -> None:
        if self._connection is not None and self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _now(self) -> int:
        return int(self._clock() * MICROSECONDS) + 1  # never earlier than the clock

    def _bell_name(self) -> str:
        """The bell that our waiters listen at, made when it is first needed.

        Where it cannot be made it is '': then nobody is woken, and waiters ask now and then.
        """
        if self._bell is None and hasattr(os, "mkfifo"):
            with suppress(OSError):
                self._bell = bells.Bell(self._path, self._notify)
        return "" if self._bell is None else self._bell.name

    def _failed(self, requests: Sequence[Request], why: str) -> list[Answer]:
        return [Failed.at(str(self._path), why)] * len(requests)


def _pause(tries: int) -> float:
    """How long to stand back when another connection is writing: longer each time."""
    ceiling = min(FIRST_PAUSE * 2 ** min(tries, 10), LONGEST_PAUSE)
    return random.uniform(ceiling / 2, ceiling)  # noqa: S311 - no secret


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

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_forks.before,
        after_in_parent=_forks.after_in_parent,
        after_in_child=_forks.after_in_child,
    )
