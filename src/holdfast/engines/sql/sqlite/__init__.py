"""`sqlite:///path`: one file, one host, many processes. The embedded default.

The clock is the host's boot clock, and each lease has the id of the boot that it ends in. Setting
the wall clock changes nothing. A lease of another boot (the machine was restarted, or two kernels
share the file) is *adopted* by the first contender that meets it: its time is counted anew, on our
clock, and it is free when it has stayed unchanged for that long.

A fence is one more than the greater of the row's last fence and the file's *floor*. Pruning idle
rows raises the floor to the greatest pruned fence. A new boot raises it by 2**32: commits are not
flushed to the disk one by one, so a power failure may undo the last grants, but never that many.
"""

import os
from functools import partial
from pathlib import Path
from urllib.parse import SplitResult, unquote_to_bytes

from holdfast.core.ports import AsyncStore, Engine, StoreHost, same_clock
from holdfast.core.records import Guarantees
from holdfast.engines import refuse_options
from holdfast.engines.sql.sqlite.connection import examine
from holdfast.engines.sql.sqlite.threads import SqliteStore
from holdfast.options import without_password

GUARANTEES = Guarantees(
    engine="an SQLite file on one host",
    exclusion="among the processes of one host that use the same file",
    broken_by=(
        "deleting or replacing the file while it is in use",
        "a file system whose locks or shared memory do not work between its users, such as NFS",
        "opening and closing the file by other means than SQLite in a process that uses it",
    ),
    fence="a counter in the name's row",
    fence_ends="deleting the file, or restoring an older copy of it",
    fairness="waiters in the order of their arrival",
    wake_up="a release wakes the next waiter through a named pipe; polling where there are none",
    suits="correctness",
    min_ttl=0.01,
    max_ttl=86400.0,
    ttl_step=0.0,
)


def engine(url: SplitResult, options: dict[str, str]) -> Engine:
    """The engine behind `sqlite:///path`."""
    refuse_options(options)
    path = os.fsdecode(unquote_to_bytes(url.path))
    if url.netloc or not path.startswith("/") or not path.strip("/"):
        shown = without_password(url.geturl())
        file = shown.removeprefix("sqlite:").strip("/")
        hint = f"; for a file in this folder write sqlite://{Path.cwd() / file}" if file else ""
        raise ValueError(
            f"url: sqlite:// takes an absolute path, as in sqlite:///var/lib/locks.db; "
            f"got {shown!r}{hint}"
        )
    if "\0" in path:
        raise ValueError(f"url: a path has no NUL character, got {path!r}")

    def connect(host: StoreHost) -> SqliteStore:
        return SqliteStore(Path(path), host.clock, host.notify)

    def connect_async(host: StoreHost) -> AsyncStore:
        from holdfast.engines.offload import Offloaded  # asyncio takes time to import

        store = connect(host)
        return Offloaded(store, "sqlite", host.clock, ask_now=store.ask_now)

    return Engine(
        guarantees=GUARANTEES,
        drift=same_clock,
        connect=connect,
        connect_async=connect_async,
        no_sharing="",
        examine=partial(examine, Path(path)),
    )
