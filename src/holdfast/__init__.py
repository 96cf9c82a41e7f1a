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
_SUBMODULES = ("fence", "schema")
_HOMES = {
    "cell": ("AsyncCell", "Cell"),
    "client": ("AsyncClient", "Client"),
    "core.records": (
        "Finding",
        "Guarantees",
        "Label",
        "Leader",
        "LeaseInfo",
        "Member",
        "NodeInfo",
        "Versioned",
    ),
    "election": ("AsyncElection", "Election"),
    "errors": (
        "AcquireTimeout",
        "ClientClosed",
        "EngineUnavailable",
        "LockError",
        "LockLost",
        "NotHeld",
        "StaleFence",
        "Unsupported",
        "UpdateTimeout",
    ),
    "latch": ("AsyncLatch", "Latch"),
    "lease": ("AsyncLease", "Lease"),
    "lock": ("AsyncLock", "Lock", "ReadWriteLock"),
    "lock_all": ("AsyncLeaseAll", "AsyncLockAll", "LeaseAll", "LockAll"),
    "skip": ("AsyncOnce", "AsyncOrSkip", "Once", "OrSkip"),
}


if not TYPE_CHECKING:  # else a type checker would accept any name

    def __getattr__(name: str) -> object:
        if name in _SUBMODULES:
            return import_module(f"holdfast.{name}")
        for home, names in _HOMES.items():
            if name in names:
                found: object = getattr(import_module(f"holdfast.{home}"), name)
                globals()[name] = found
                return found
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
