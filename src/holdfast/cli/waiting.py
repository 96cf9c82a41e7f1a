"""What a person is told while `holdfast run` waits: who holds the lock."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from math import inf

import holdfast
from holdfast.cli.console import Output, stderr_is_ready
from holdfast.cli.options import describe_holders
from holdfast.cli.signals import all_signals_blocked
from holdfast.options import printable

EVERY = 1.0
"""Seconds between two looks; the first comes after as many."""

CLEAR = "\r\x1b[K"


class WaitingLine:
    """On a terminal: one line, which is written anew every second and removed in the end. A run
    that waits for the run that it runs inside of is warned, once, wherever its messages go.

    A thread of its own looks, since the engine may take its time to answer.
    """

    def __init__(
        self, client: holdfast.Client, names: Iterable[str], shares: int, output: Output
    ) -> None:
        self._client, self._names, self._shares = client, sorted(names), shares
        self._output = output.without_waiting()
        self._began = int(time.time() * 1000) / 1000  # as exact as holder ids are
        self._parent = holdfast.Label.of(os.environ.get("HOLDFAST_HOLDER", ""))
        self._on_terminal = sys.stderr.isatty()
        self._over = threading.Event()
        self._mutex = threading.Lock()
        self._written = False

    def __enter__(self) -> WaitingLine:
        if not self._output.quiet and (self._on_terminal or self._parent):
            with all_signals_blocked():
                threading.Thread(target=self._look, name="holdfast-waiting", daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        with self._mutex:
            self._over.set()
            self._clear()

    def _look(self) -> None:
        while not self._over.wait(EVERY):
            text = f"waiting for {printable(', '.join(self._names))}"
            inside = None
            try:
                if info := first_held(self._client, self._names, self._began):
                    left = f"{info.remaining:.0f} s left" if info.remaining < inf else "no end"
                    by = f"held by {describe_holders(info)}, {left}"
                    text = f"waiting for {printable(info.name)}: {by}"
                inside = self._held_by_its_parent()
                self._parent = None  # it holds now what it will ever hold
            except holdfast.LockError:
                text += ": the engine is unreachable"
            with self._mutex:
                if self._over.is_set():
                    return
                if inside:
                    self._clear()
                    self._output.note(
                        f"{inside!r} is held by the holdfast run that this one runs inside of:"
                        " it will not be released before this one ends"
                    )
                if self._on_terminal:
                    self._written = True
                    width = os.get_terminal_size(2).columns or 80  # 0: it does not know
                    _write(CLEAR + text[: width - 1])
                elif not self._parent:
                    return

    def _held_by_its_parent(self) -> str | None:
        """The first lock that is held by the run around this one, and cannot be shared with it."""
        if self._parent is None:
            return None
        for info in filter(None, map(self._client.inspect, self._names)):
            may_share = info.shares == self._shares != 1
            if not may_share and self._parent in [each.label for each in info.members]:
                return info.name
        return None

    def _clear(self) -> None:
        if self._written:
            _write(CLEAR)


def _write(text: str) -> None:
    if stderr_is_ready():
        with suppress(OSError):  # the terminal has gone: the wait goes on
            os.write(2, text.encode(errors="replace"))


def first_held(
    client: holdfast.Client, names: Iterable[str], began: float = inf
) -> holdfast.LeaseInfo | None:
    """The lock that is waited for: several are acquired in the order of their names, so it is the
    first that is held, but not by what this process has asked for since it `began`."""
    ours = os.uname().nodename, os.getpid()
    for info in filter(None, map(client.inspect, sorted(names))):
        label = info.label
        # An earlier process may have had this pid, as in a container that was started again.
        if not label or (label.host, label.pid) != ours or (label.asked_at or 0.0) < began:
            return info
    return None
