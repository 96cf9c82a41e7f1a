"""A distributed lock that says what it promises: leases, fencing tokens, honest loss.

>>> import holdfast
>>> with holdfast.Client("memory://") as client:
...     with client.lock("invoice:42", ttl=30) as lease:
...         print("the only one, under fence", lease.fence)
the only one, under fence 1
"""

from holdfast._version import __version__
from holdfast.client import AsyncClient, Client
from holdfast.core.records import Guarantees, Label, LeaseInfo
from holdfast.errors import (
    AcquireTimeout,
    EngineUnavailable,
    LockError,
    LockLost,
    NotHeld,
    StaleFence,
)
from holdfast.lease import AsyncLease, Lease
from holdfast.lock import AsyncLock, Lock

__all__ = [
    "AcquireTimeout",
    "AsyncClient",
    "AsyncLease",
    "AsyncLock",
    "Client",
    "EngineUnavailable",
    "Guarantees",
    "Label",
    "Lease",
    "LeaseInfo",
    "Lock",
    "LockError",
    "LockLost",
    "NotHeld",
    "StaleFence",
    "__version__",
]
