"""Several locks as one: all of them, or none.

1. They are acquired one after the other, in the order of their names. All callers have that order,
   so callers whose names overlap wait for each other, and never in a circle.
2. The time to wait is shared: each waits for what the ones before it have left.
3. If one is not granted, those that were are released, and the caller gets none.
4. If one is lost while the next is waited for, the rest is released, and the caller is told.
5. The caller is interrupted, cancelled or closed: the renewer releases what was granted.
"""

from collections.abc import Sequence
from math import inf

from holdfast.core.acquire import acquire
from holdfast.core.effects import Steps
from holdfast.core.lease_state import HELD, LOST, LeaseState, LockSpec
from holdfast.core.release import abandon, begin_release, finish_release, interrupt_release
from holdfast.core.runtime import Runtime
from holdfast.errors import LockError


def acquire_all(
    runtime: Runtime, specs: Sequence[LockSpec], holders: Sequence[str], timeout: float | None
) -> Steps[Sequence[LeaseState] | None]:
    """Get all the locks; None if another holder has one of them until `timeout` (0: try each once;
    None: no limit)."""
    give_up_at = inf if timeout is None else runtime.clock() + timeout
    taken: list[LeaseState] = []
    try:
        for spec, holder in zip(specs, holders, strict=True):
            left = None if timeout is None else max(0.0, give_up_at - runtime.clock())
            lease = yield from acquire(runtime, spec, holder, left)
            if lease is None:
                yield from _give_up(runtime, taken)
                return None
            taken.append(lease)
        for lease in taken:
            lease.require_held(runtime.clock())
        return taken
    except BaseException:
        for lease in taken:
            if lease.state is HELD:
                abandon(runtime, lease.spec, lease.holder)
        raise


def _give_up(runtime: Runtime, taken: Sequence[LeaseState]) -> Steps[None]:
    try:
        yield from release_all(runtime, taken)
    except LockError:
        return  # one was lost meanwhile, or the renewer goes on trying to release it


def release_all(runtime: Runtime, leases: Sequence[LeaseState]) -> Steps[None]:
    """Release them, the last one first, each whatever becomes of the others; then raise what
    failed first."""
    left = list(leases)
    failure: LockError | None = None
    try:
        while left:
            try:
                if begin_release(runtime, left[-1]):
                    yield from finish_release(runtime, left[-1])
            except LockError as error:
                failure = failure or error
            left.pop()
    except BaseException:
        for lease in left:
            interrupt_release(runtime, lease)
        raise
    if failure is not None:
        raise failure


def leave_all(
    runtime: Runtime, leases: Sequence[LeaseState], error: BaseException | None
) -> Steps[None]:
    """Leave a `with` block: release what is not released yet. What the block itself raised goes
    first; a failure is noted on it."""
    try:
        yield from release_all(runtime, [each for each in leases if each.state in (HELD, LOST)])
    except LockError as failure:
        if error is None:
            raise
        error.add_note(f"holdfast: {failure}")
