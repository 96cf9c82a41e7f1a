"""Servers that refuse to run as root run as another user, if the tests do run as root."""

import os
import pwd
import shutil
from pathlib import Path

USERS = ("postgres", "nobody")
"""Whom to run them as: the first of these that exists."""


def as_user() -> list[str]:
    """What a command must begin with; nothing, unless we are root.

    A process that changes its user forgets that it is to end with us, so that is said again.
    """
    if os.geteuid() != 0:
        return []
    user = _user()
    setpriv = shutil.which("setpriv") or "setpriv"
    words = [setpriv, f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return [*words, "--pdeathsig", "KILL", "--"]


def give_to_user(path: Path) -> None:
    """Let a file or a folder be that user's."""
    if os.geteuid() == 0:
        user = _user()
        os.chown(path, user.pw_uid, user.pw_gid)


def _user() -> pwd.struct_passwd:
    existing = {entry.pw_name: entry for entry in pwd.getpwall()}
    return next(existing[name] for name in USERS if name in existing)
