"""A distributed lock that states what it guarantees: leases, fencing tokens, honest loss.

>>> import holdfast
>>> with holdfast.Client("memory://") as client:
...     with client.lock("invoice:42", ttl=30) as lease:
...         print("the only one, under fence", lease.fence)
the only one, under fence 1
"""

from importlib import import_module
from typing import TYPE_CHECKING

from holdfast._version import __version__

if TYPE_CHECKING:
    from holdfast import fence, schema
    from holdfast.cell import AsyncCell, Cell
    from holdfast.client import AsyncClient, Client
    from holdfast.core.records import (
        Finding,
        Guarantees,
        Label,
        Leader,
        LeaseInfo,
        Member,
        NodeInfo,
        Versioned,
    )
    from holdfast.election import AsyncElection, Election
    from holdfast.errors import (
        AcquireTimeout,
        ClientClosed,
        EngineUnavailable,
        LockError,
        LockLost,
        NotHeld,
        StaleFence,
        Unsupported,
        UpdateTimeout,
    )
    from holdfast.latch import AsyncLatch, Latch
    from holdfast.lease import AsyncLease, Lease
    from holdfast.lock import AsyncLock, Lock, ReadWriteLock
    from holdfast.lock_all import AsyncLeaseAll, AsyncLockAll, LeaseAll, LockAll
    from holdfast.skip import AsyncOnce, AsyncOrSkip, Once, OrSkip

__all__ = [
    "AcquireTimeout",
    "AsyncCell",
    "AsyncClient",
    "AsyncElection",
    "AsyncLatch",
    "AsyncLease",
    "AsyncLeaseAll",
    "AsyncLock",
    "AsyncLockAll",
    "AsyncOnce",
    "AsyncOrSkip",
    "Cell",
    "Client",
    "ClientClosed",
    "Election",
    "EngineUnavailable",
    "Finding",
    "Guarantees",
    "Label",
    "Latch",
    "Leader",
    "Lease",
    "LeaseAll",
    "LeaseInfo",
    "Lock",
    "LockAll",
    "LockError",
    "LockLost",
    "Member",
    "NodeInfo",
    "NotHeld",
    "Once",
    "OrSkip",
    "ReadWriteLock",
    "StaleFence",
    "Unsupported",
    "UpdateTimeout",
    "Versioned",
    "__version__",
    "fence",
    "schema",
]

# Each name is imported on first use: `import holdfast` imports no engine, no sqlite3, no asyncio.
_HOMES = (
    "errors",
    "core.records",
    "cell",
    "lease",
    "lock",
    "lock_all",
    "skip",
    "latch",
    "election",
    "client",
)
"""Where a name is looked for: a module comes after those that it imports."""


if not TYPE_CHECKING:  # else a type checker would accept any name

    def __getattr__(name: str) -> object:
        if name in ("fence", "schema"):
            return import_module(f"holdfast.{name}")
        if name in __all__:
            for home in _HOMES:
                module = import_module(f"holdfast.{home}")
                if hasattr(module, name):
                    globals()[name] = getattr(module, name)
                    return globals()[name]
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
