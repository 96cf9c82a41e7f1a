"""Opening an SQLite file, with a clear error for everything that can be wrong; and what is to be
said of the file, for a doctor: see `holdfast doctor`."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from math import inf
from pathlib import Path

from holdfast.core.records import Finding
from holdfast.engines.sql.dialect import Row

# fmt: off
NETWORK_FILE_SYSTEMS = frozenset([
    "afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.sshfs", "gfs2", "glusterfs",
    "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "smb2", "smb3", "smbfs",
])
# fmt: on

PAGE = 2048
"""Bytes. Every commit writes whole pages to the log, so ones that are smaller than SQLite's usual
4096 make a pair about 9 % faster (1024: about 17 %, but then the larger values of cells spill)."""

NEEDED = (3, 35, 0)
"""The SQLite version that brought RETURNING."""


class UnusableError(Exception):
    """The file cannot be used; the message has the reason, and what to do."""


def default_path() -> Path:
    """`holdfast.db` in the user's state folder, where the platform keeps such files."""
    home = Path.home()
    if sys.platform == "darwin":
        folder = home / "Library" / "Application Support"
    else:
        state = os.environ.get("XDG_STATE_HOME", "")
        folder = Path(state) if os.path.isabs(state) else home / ".local" / "state"
    return folder / "holdfast" / "holdfast.db"


def connect(path: Path) -> sqlite3.Connection:
    """Open the file, making it (0600) and, for the default path, its folder (0700) if need be."""
    if sqlite3.sqlite_version_info < NEEDED:
        raise UnusableError(f"SQLite {sqlite3.sqlite_version} is too old; 3.35 or newer is needed")
    if path == default_path():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    kind = file_system(path.parent)
    if kind in NETWORK_FILE_SYSTEMS:
        raise UnusableError(
            f"{path.parent} is on a network file system ({kind}), where SQLite cannot lock "
            "reliably; use a local path, or an engine made for many hosts"
        )
    # Only SQLite may open the file: closing any other descriptor of it in this process drops the
    # locks that other connections of the process have on it. That is how POSIX locks are.
    new = not path.exists()
    connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA page_size = {PAGE}")  # of a new file; an old one keeps its own
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if new:
            path.chmod(0o600)
        if mode != "wal":
            raise UnusableError(
                f"its file system cannot share memory between processes (mode {mode!r})"
            )
        # Flushed to the disk while the file is being set up; `relax` ends that.
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def relax(connection: sqlite3.Connection) -> None:
    """No flush for every commit: what a power failure undoes, the fence's floor makes up for."""
    connection.execute("PRAGMA synchronous = NORMAL")


def rows_of(cursor: sqlite3.Cursor) -> list[Row]:
    """What a statement gives; where it gives nothing, a row for each that it changed."""
    return cursor.fetchall() if cursor.description else [(1,)] * cursor.rowcount


def file_system(folder: Path, mounts: str = "/proc/self/mountinfo") -> str:
    """The type of the file system that a folder is on; '' if it is unknown."""
    try:
        table = Path(mounts).read_text()
    except OSError:
        return ""
    found: tuple[int, str] = (-1, "")
    for line in table.splitlines():
        before, _, after = line.partition(" - ")
        point = Path(before.split()[4].replace("\\040", " "))
        if folder.resolve().is_relative_to(point) and len(point.parts) >= found[0]:
            found = (len(point.parts), after.split()[0])
    return found[1]


def boot_id() -> str:
    """A text that identifies this boot of this machine, and this clock."""
    if sys.platform == "linux":
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        try:
            # Containers may have a boot clock of their own.
            clock = os.readlink("/proc/self/ns/time")
        except OSError:
            clock = ""  # not on kernels before 5.6
        return f"{boot} {clock}"
    command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
    try:
        run = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - fixed
    except subprocess.SubprocessError as error:
        raise UnusableError(f"this system has no boot time ({error})") from error
    return run.stdout.strip()


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection is in the way, so that trying again makes sense."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


_MEANINGS: dict[int, tuple[str, float | None]] = {
    sqlite3.SQLITE_NOTADB: ("it is not an SQLite database; name another file", inf),
    sqlite3.SQLITE_CORRUPT: ("the database is damaged; restore it or name another file", inf),
    sqlite3.SQLITE_READONLY: ("the database cannot be written; check its permissions", inf),
    sqlite3.SQLITE_CANTOPEN: (
        "it cannot be opened; it must be a file, in a folder that exists and can be written",
        inf,
    ),
    sqlite3.SQLITE_FULL: ("the disk is full", None),
    sqlite3.SQLITE_BUSY: ("another program keeps the database locked", None),
    sqlite3.SQLITE_LOCKED: ("another program keeps the database locked", None),
}
"""By code: what it means, and `heals_in` as in `Failed`."""


def explain(error: Exception) -> tuple[str, float | None]:
    """What an error means for the user, and whether waiting heals it."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    meaning, heals_in = _MEANINGS.get(code, ("", None))
    return f"{meaning} ({error})" if meaning else str(error), heals_in


def examine(path: Path, ttl: float) -> Iterator[Finding]:
    """Who may delete the file. (A file that cannot be used at all is found by trying.)"""
    folder = path.parent
    if folder.is_dir() and folder.stat().st_mode & 0o1002 == 0o002:
        yield Finding(
            "warning",
            str(path),
            f"every user of this host may delete files in {folder}",
            "if the file is deleted while it is in use, two may hold one lock",
            f"chmod o-w {folder}, or choose a folder of the program's own",
        )
