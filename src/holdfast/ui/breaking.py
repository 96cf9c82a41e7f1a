"""Breaking a lock, and the record of who did it."""

import json
import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast.client import Client
from holdfast.errors import LockError
from holdfast.options import printable
from holdfast.ui.feed import public, reference

LIMITS = (
    "The holder was not stopped: until its next renewal fails, it and the next holder may both be"
    " at work. Only fences keep their writes in order."
)

log = logging.getLogger("holdfast.audit")


class Audit:
    """One line of JSON for each attempt, in a file and in the log."""

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self._path = None if path is None else Path(path)
        self._write("")  # a file that cannot be written is noticed before a lock is broken

    def record(self, facts: Mapping[str, Any]) -> None:
        """Write it down."""
        line = json.dumps({"at": datetime.now(UTC).isoformat(timespec="milliseconds"), **facts})
        log.warning("%s", line)
        self._write(line + "\n")

    def _write(self, text: str) -> None:
        if self._path is not None:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with open(descriptor, "a") as file:
                file.write(text)
                file.flush()
                os.fsync(descriptor)


def break_lock(
    client: Client, audit: Audit, who: Mapping[str, Any], name: str, fence: str, only: str, why: str
) -> tuple[bool, str]:
    """Take the lock from the holders that have it with this fence, or from one of them; whether it
    was broken, and what is true now."""
    holders: list[dict[str, Any]] = []
    try:
        broken, outcome = _break(client, name, fence, only, holders)
    except LockError as error:
        broken, outcome = False, printable(str(error))
    facts = {
        "event": "break",
        **who,
        "name": printable(name),
        "holders": holders,
        "fence": fence,
        "reason": printable(why),
        "broken": broken,
        "outcome": outcome,
    }
    answer = f"{outcome} {LIMITS}" if broken else outcome
    try:
        audit.record(facts)
    except OSError as error:  # what is true of the lock does not change
        log.exception("the audit record could not be written to its file")
        answer += f" The audit record could not be written: {printable(str(error))}."
    return broken, answer


def _break(
    client: Client, name: str, fence: str, only: str, holders: list[dict[str, Any]]
) -> tuple[bool, str]:
    info = client.inspect(name)
    if info is None:
        return False, "Not broken: it is free."
    if str(info.fence) != fence:
        return False, "Not broken: it has changed hands since you looked."
    chosen = [each for each in info.members if not only or reference(each.holder) == only]
    holders += [public(each.holder) for each in chosen]
    if not chosen:
        return False, "Not broken: that holder does not have it any more."
    # Each by its id: a client that gets the lock in this moment keeps it.
    broken = [client.break_lock(name, each.holder) for each in chosen]
    if not any(broken):
        return False, "Not broken: it was released in this moment."
    return True, "Broken." if len(chosen) == len(info.members) else "Broken for this holder."
