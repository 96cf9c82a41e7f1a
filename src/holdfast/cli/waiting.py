"""What a person sees while `holdfast run` waits: who holds the lock, and for how long."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from math import inf

import holdfast
from holdfast.cli.options import describe_holders
from holdfast.cli.output import printable, stderr_is_ready
from holdfast.cli.signals import all_signals_blocked

EVERY = 1.0
"""Seconds between two looks; the first comes after as many."""

CLEAR = "\r\x1b[K"


class WaitingLine:
    """On a terminal: one line, which is written anew every second and removed in the end. A thread
    of its own looks, since the engine may take its time to answer."""

    def __init__(self, client: holdfast.Client, name: str, *, quiet: bool) -> None:
        self._client, self._name = client, name
        self._shown = not quiet and sys.stderr.isatty()
        self._over = threading.Event()
        self._mutex = threading.Lock()
        self._written = False

    def __enter__(self) -> WaitingLine:
        if self._shown:
            with all_signals_blocked():
                threading.Thread(target=self._look, name="holdfast-waiting", daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        with self._mutex:
            self._over.set()
            if self._written:
                _write(CLEAR)

    def _look(self) -> None:
        while not self._over.wait(EVERY):
            text = self._text()
            with self._mutex:
                if not self._over.is_set():
                    self._written = True
                    width = os.get_terminal_size(2).columns or 80  # 0: it does not know
                    _write(CLEAR + text[: width - 1])

    def _text(self) -> str:
        waiting = f"waiting for {printable(self._name)}"
        try:
            info = self._client.inspect(self._name)
        except holdfast.LockError:
            return f"{waiting}: the engine is unreachable"
        if info is None:
            return waiting
        left = f"{info.remaining:.0f} s left" if info.remaining < inf else "without an end"
        return f"{waiting}: held by {describe_holders(info)}, {left}"


def _write(text: str) -> None:
    if stderr_is_ready():
        with suppress(OSError):  # the terminal has gone: the wait goes on
            os.write(2, text.encode(errors="replace"))


def waits_for_its_parent(client: holdfast.Client, name: str) -> bool:
    """Whether this runs inside a `holdfast run` that holds the lock which it is to wait for."""
    if os.environ.get("HOLDFAST_NAME") != name:
        return False
    try:
        info = client.inspect(name)
    except holdfast.LockError:
        return False
    holder = os.environ.get("HOLDFAST_HOLDER")
    return info is not None and any(member.holder == holder for member in info.members)
