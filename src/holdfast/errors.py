"""What can go wrong, as a tree.

LockError
├── AcquireTimeout     (TimeoutError)     another client held it until the deadline
├── NotHeld            (RuntimeError)     there is nothing of yours to release or extend
│   └── LockLost                          it was yours and no longer is
├── UpdateTimeout      (TimeoutError)     others changed the cell before each of your writes
├── EngineUnavailable  (ConnectionError)  the engine is unreachable, or the outcome is unknown
├── ClientClosed                          the client was closed; make a new one
├── Unsupported        (ValueError)       this engine does not have what was asked for
└── StaleFence                            a newer holder has written already

A bad argument is a plain `ValueError` or `TypeError`, raised before any I/O.
"""

from collections.abc import Mapping
from typing import Any


class LockError(Exception):
    """Anything that holdfast raises about a lock.

    >>> issubclass(AcquireTimeout, LockError)
    True
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (type(self), self.args), self.__dict__


def _unpickled(kind: type[LockError], args: tuple[Any, ...]) -> LockError:
    """The error again. It is not initialised: each kind has arguments of its own."""
    error = kind.__new__(kind)
    error.args = args
    return error


class ClientClosed(LockError):
    """The client was closed: nothing is held through it any more, and nothing can be acquired.

    >>> import holdfast
    >>> client = holdfast.Client("memory://client-closed-example")
    >>> client.close()
    >>> client.lock("job").acquire()
    Traceback (most recent call last):
    holdfast.errors.ClientClosed: this client is closed; nothing is held through it any more
    """

    def __init__(
        self, message: str = "this client is closed; nothing is held through it any more"
    ) -> None:
        super().__init__(message)


class Unsupported(LockError, ValueError):
    """This engine does not have what was asked for. Raised before any I/O.

    >>> import holdfast
    >>> with holdfast.Client("redis://h1?protocol=getset") as client:
    ...     client.rwlock("prices")
    Traceback (most recent call last):
    holdfast.errors.Unsupported: no read locks or semaphores: it grants each lock to one holder
    """


class AcquireTimeout(LockError, TimeoutError):
    """Another client held the lock until the deadline: nothing was acquired or left behind.

    >>> import holdfast
    >>> client = holdfast.Client("memory://acquire-timeout-example")
    >>> with client.lock("job"):
    ...     with client.lock("job", timeout=0):
    ...         pass
    Traceback (most recent call last):
    holdfast.errors.AcquireTimeout: 'job' is held by another holder and was not freed within 0 s
    >>> client.close()
    """

    def __init__(self, name: str, timeout: float) -> None:
        super().__init__(
            f"{name!r} is held by another holder and was not freed within {timeout:g} s"
        )
        self.name = name
        self.timeout = timeout


class NotHeld(LockError, RuntimeError):
    """There is no lease of yours to release or extend; nothing was changed.

    >>> import holdfast
    >>> with holdfast.Client("memory://not-held-example") as client:
    ...     client.lock("job").release()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    holdfast.errors.NotHeld: 'job' is not held through this Lock by this thread or task; ...
    """


class LockLost(NotHeld):
    """The lease was yours and no longer is: another holder may already be at work.

    `name` and `fence` are those of the lease; `why` is the reason.

    >>> error = LockLost("job", 7, "it was not renewed in time")
    >>> print(error)
    the lease on 'job' (fence 7) is lost: it was not renewed in time; another holder may have it now
    """

    def __init__(self, name: str, fence: int, why: str) -> None:
        super().__init__(
            f"the lease on {name!r} (fence {fence}) is lost: {why}; another holder may have it now"
        )
        self.name = name
        self.fence = fence
        self.why = why


class UpdateTimeout(LockError, TimeoutError):
    """Others changed the cell before each of your writes until the deadline; nothing was set.

    >>> error = UpdateTimeout("stock", 10, 7)
    >>> print(error)
    'stock' was not updated: others changed it before each of 7 tries within 10 s; nothing was set
    """

    def __init__(self, name: str, timeout: float, tries: int) -> None:
        counted = "the only try" if tries == 1 else f"each of {tries} tries"
        super().__init__(
            f"{name!r} was not updated: others changed it before {counted} within {timeout:g} s; "
            "nothing was set"
        )
        self.name = name
        self.timeout = timeout
        self.tries = tries


class EngineUnavailable(LockError, ConnectionError):
    """The engine is unreachable, or the outcome of a request is unknown.

    `nodes` maps each node that was asked to what it answered.

    >>> error = EngineUnavailable("not acquired", {"db.example:5432": "connection refused"})
    >>> print(error)
    not acquired: db.example:5432: connection refused
    >>> error.nodes["db.example:5432"]
    'connection refused'
    """

    def __init__(self, message: str, nodes: Mapping[str, str]) -> None:
        answers = "; ".join(f"{node}: {answer}" for node, answer in nodes.items())
        super().__init__(f"{message}: {answers}" if answers else message)
        self.message = message
        self.nodes = dict(nodes)


class StaleFence(LockError):
    """A write came with an older fencing token than one already seen; it was refused.

    `fence` is the one that was refused, `newest` the greatest one that was seen for `name`.

    >>> error = StaleFence("job", 7, 9)
    >>> print(error)
    fence 7 for 'job' is stale: a later holder has already used 9; nothing may be written with it
    """

    def __init__(self, name: str, fence: int, newest: int) -> None:
        super().__init__(
            f"fence {fence} for {name!r} is stale: a later holder has already used {newest}; "
            "nothing may be written with it"
        )
        self.name = name
        self.fence = fence
        self.newest = newest
