"""Breaking a lock that is still held as an operator saw it, and the record of who did it.

`holdfast break`, `holdfast watch` and `holdfast ui` do it by this. Holder ids contain a secret, so
the record, like the page, has a hash instead.
"""

import errno
import getpass
import hashlib
import json
import logging
import os
import socket
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from holdfast.client import Client
from holdfast.core.records import Label, LeaseInfo
from holdfast.errors import LockError
from holdfast.options import printable

LIMITS = (
    "Until its next renewal fails, it and the next holder may both be at work. Only fences keep"
    " their writes in order."
)
"""What breaking a lock means for its holder."""

LONGEST_REASON = 500

log = logging.getLogger("holdfast.audit")


class Audit:
    """One line of JSON for each attempt, in a file and in the log."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
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
                try:
                    os.fsync(descriptor)
                except OSError as error:
                    if error.errno != errno.EINVAL:  # it is a pipe, or a terminal
                        raise


def break_held(
    client: Client,
    name: str,
    *,
    fence: str = "",
    holders: Collection[str] = (),
    audit: Audit,
    who: Mapping[str, Any],
    reason: str,
) -> tuple[bool, str]:
    """Take the lock from its holders, if it is held as the operator saw it; whether it was broken,
    and what is true now.

    Args:

    - `fence`: only if it is held with this one. Default: with any.
    - `holders`: only from these, by their ids or by `reference`. Default: from all.
    - `who`: who does it, and `reason` why, for the record.
    """
    facts = {"event": "break", **who, "name": printable(name), "holders": [], "fence": fence}
    facts |= {"reason": printable(reason), "broken": False}
    try:
        outcome = _break(client, name, fence, holders, facts)
    except BaseException as error:  # also a Ctrl-C: it may be broken
        # The text of an error that is not ours may contain anything, also a holder id.
        why = printable(str(error)) if isinstance(error, LockError) else type(error).__name__
        _record(audit, {**facts, "outcome": why})
        raise
    return facts["broken"], outcome + _record(audit, {**facts, "outcome": outcome})


def _break(
    client: Client,
    name: str,
    fence: str,
    holders: Collection[str],
    facts: dict[str, Any],
) -> str:
    info = client.inspect(name)
    facts["fence"] = str(info.fence) if info else fence
    why = refusal(info, fence, holders)
    if info is None or why:
        return why
    chosen = _chosen(info, holders)
    facts["holders"] = [public(each) for each in chosen]
    # Each by its id, which no two leases share: a client that gets the lock just now keeps it.
    for holder in chosen:
        facts["broken"] |= client.break_lock(name, holder)
    if not facts["broken"]:
        now = client.inspect(name)
        if now and any(each.holder in chosen for each in now.members):
            return "not broken: it is still held by that holder"
        return "not broken: it was released just now"
    keep = len(chosen) < len(info.members)
    return f"broken: {'its other holders keep it' if keep else 'it is free for the next holder'}"


def refusal(info: LeaseInfo | None, fence: str, holders: Collection[str]) -> str:
    """Why `break_held` would not break a lock that is held so; empty if it would."""
    if info is None:
        return "not broken: it is free"
    if fence not in ("", str(info.fence)):
        return f"not broken: its fence is {info.fence}, and not {fence}"
    chosen = _chosen(info, holders)
    if not chosen:
        return "not broken: that holder does not hold it, another client does"
    if holders and "" in chosen:  # to break it by that id is to take it from all
        return (
            "not broken: its holder has no id; `holdfast break --yes` takes the lock from any"
            " holder"
        )
    return ""


def _chosen(info: LeaseInfo, holders: Collection[str]) -> list[str]:
    return [
        each.holder
        for each in info.members
        if not holders or each.holder in holders or reference(each.holder) in holders
    ]


def _record(audit: Audit, facts: Mapping[str, Any]) -> str:
    """What the operator is told of the record: nothing, if it was written."""
    try:
        audit.record(facts)
    except OSError as error:  # what is true of the lock does not change
        log.exception("the audit record could not be written to its file")
        return f"; the audit record could not be written: {printable(str(error))}"
    return ""


def operator() -> dict[str, str]:
    """Who uses this terminal, for the record. (`sudo` does not change the login name.)"""
    try:
        user = os.getlogin()
    except OSError:  # there is no terminal
        try:
            user = getpass.getuser()
        except (KeyError, OSError):  # a user without a name, as in a container
            user = str(os.getuid())
    return {"session": "", "remote": socket.gethostname(), "user": printable(user)}


@lru_cache(maxsize=100_000)
def reference(text: str) -> str:
    """What a page, or a record, calls a lock or a holder."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:24]


@lru_cache(maxsize=100_000)
def public(holder: str) -> dict[str, Any]:
    """What of a holder may be shown. Of an id that another program wrote, nothing."""
    label = Label.of(holder)
    return {
        "id": reference(holder),
        "host": printable(label.host) if label else "",
        "pid": label.pid if label else None,
        "program": printable(label.program) if label else "",
        "text": printable(label.text) if label else "",
    }
