"""Several locks as one: all of them, or none.

1. They are acquired one after the other, in the order of their names. All callers have that order,
   so callers whose names overlap wait for each other, and never in a circle.
2. The time to wait is shared: each waits for what the ones before it have left.
3. If one is not granted, those that were are released, and the caller gets none.
4. If one is lost while the next is waited for, the rest is released, and the caller is told.
5. The caller is interrupted, cancelled or closed: the renewer releases what was granted.
6. Releasing them has two parts, as in `release`: all leases end, then the releases are sent.
"""

from collections.abc import Sequence
from contextlib import suppress
from math import inf
from typing import TypeAlias

from holdfast.core.acquire import acquire
from holdfast.core.effects import Steps
from holdfast.core.lease_state import HELD, LeaseState, LockSpec
from holdfast.core.messages import Release
from holdfast.core.release import (
    abandon,
    begin_release,
    finish_release,
    interrupt_release,
)
from holdfast.core.runtime import Runtime
from holdfast.errors import EngineUnavailable, LockError, LockLost, NotHeld

Begun: TypeAlias = tuple[LeaseState, Release]
"""A release that has begun, and is to be sent."""


def acquire_all(
    runtime: Runtime, specs: Sequence[LockSpec], holders: Sequence[str], timeout: float | None
) -> Steps[tuple[Sequence[LeaseState], str]]:
    """Get all the locks; if another holder has one of them until `timeout` (0: try each once; None:
    no limit), none, and the name of that one."""
    give_up_at = inf if timeout is None else runtime.clock() + timeout
    taken: list[LeaseState] = []
    try:
        for spec, holder in zip(specs, holders, strict=True):
            left = None if timeout is None else max(0.0, give_up_at - runtime.clock())
            lease = yield from acquire(runtime, spec, holder, left)
            if lease is None:
                begun, _ = begin_release_all(runtime, taken)
                with suppress(LockError):  # one was lost meanwhile, or the renewer goes on trying
                    yield from finish_release_all(runtime, begun)
                return [], spec.name
            taken.append(lease)
        for lease in taken:
            lease.require_held(runtime.clock())
        return taken, ""
    except BaseException:
        for lease in taken:
            if lease.state is HELD:
                abandon(runtime, lease.spec, lease.holder)
        raise


def begin_release_all(
    runtime: Runtime, leases: Sequence[LeaseState]
) -> tuple[list[Begun], LockError | None]:
    """End the leases, the last one first; gives the releases that are to be sent now, and what to
    raise then: a loss, or that all of them had been released before."""
    begun: list[Begun] = []
    refused: list[NotHeld] = []
    for lease in reversed(leases):
        try:
            release = begin_release(runtime, lease)
            if release is not None:
                begun.append((lease, release))
        except NotHeld as error:
            refused.append(error)
    failures: list[NotHeld] = [error for error in refused if isinstance(error, LockLost)]
    if not failures and len(refused) == len(leases):
        failures = refused
    return begun, failures[0] if failures else None


def finish_release_all(
    runtime: Runtime, begun: Sequence[Begun], failure: LockError | None = None
) -> Steps[None]:
    """Send the releases that have begun, then raise what failed first. Only one is waited for in
    vain: if the engine is unreachable, the renewer sends the rest, as after an interruption."""
    left = list(begun)
    try:
        while left:
            try:
                yield from finish_release(runtime, *left[0])
            except LockLost as error:
                failure = failure or error
            del left[0]
    except EngineUnavailable as error:
        failure = failure or error
    finally:
        for lease, _ in left:
            interrupt_release(runtime, lease)
    if failure is not None:
        raise failure
