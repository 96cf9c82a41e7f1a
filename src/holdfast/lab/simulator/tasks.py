"""What the tasks of a client do: take locks, work under them, and report every step."""

from holdfast.core.acquire import acquire
from holdfast.core.effects import Sleep, Steps
from holdfast.core.holding import extend
from holdfast.core.lease_state import LeaseState
from holdfast.core.release import begin_leave, deliver, finish_leave
from holdfast.errors import EngineUnavailable, LockError, LockLost, NotHeld
from holdfast.lab.simulator.client import Client
from holdfast.lab.simulator.driver import CancelledError
from holdfast.lab.simulator.observer import Observer
from holdfast.lab.simulator.plan import Task
from holdfast.lab.simulator.scene import Turn


def work_through(observer: Observer, client: Client, task: Task) -> Steps[None]:
    """Do one section after the other, until the run closes."""
    for section in task.sections:
        yield Sleep(client.clock() + section.rest)
        if observer.closing:
            return
        yield from take(observer, observer.turn(client, section))


def take(observer: Observer, turn: Turn) -> Steps[None]:
    """Take the lock, and if it is granted, work."""
    client = turn.client
    observer.asked(turn)
    holder = client.runtime.new_holder("")
    try:
        lease = yield from acquire(client.runtime, turn.spec, holder, turn.section.timeout)
    except EngineUnavailable:
        observer.refused(turn, "unavailable")
        return
    except CancelledError:
        # As the drivers do after an interruption: try once to deliver the release.
        yield from deliver(client.runtime, turn.spec, holder)
        observer.refused(turn, "cancelled")
        raise
    if lease is None:
        observer.refused(turn, "held")
        return
    observer.granted(turn, lease)
    error: BaseException | None = None
    try:
        yield from _work(observer, turn, lease)
    except CancelledError as cancelled:
        error = cancelled
    yield from _leave(observer, turn, lease, error)
    if error is not None:
        raise error


def _work(observer: Observer, turn: Turn, lease: LeaseState) -> Steps[None]:
    half = turn.section.work / 2
    yield Sleep(turn.client.clock() + half)
    if turn.section.extend_to is not None:
        yield from _extend(observer, turn, lease, turn.section.extend_to)
    yield Sleep(turn.client.clock() + half)


def _extend(observer: Observer, turn: Turn, lease: LeaseState, ttl: float) -> Steps[None]:
    try:
        yield from extend(turn.client.runtime, lease, ttl)
    except LockError:
        return  # it is lost, or still what it was
    now = turn.client.clock()
    if not lease.is_held(now):
        observer.find("loss not reported", "extended, and not held", turn.client.name)


def _leave(
    observer: Observer, turn: Turn, lease: LeaseState, error: BaseException | None
) -> Steps[None]:
    client = turn.client
    observer.leaving(turn, lease)
    was_lost = lease.is_lost(client.clock())
    reported = False
    try:
        release = begin_leave(client.runtime, lease, error)
        if release is not None:
            yield from finish_leave(client.runtime, lease, release, error)
    except LockLost:
        reported = True
    except EngineUnavailable as unavailable:
        observer.note(turn, str(unavailable))  # it expires, and its holder knows
    except NotHeld as wrong:
        client.fails(wrong)
    except CancelledError:
        yield from deliver(client.runtime, turn.spec, lease.holder)
        observer.left(turn, lost=was_lost)
        raise
    if was_lost and not reported and error is None:
        observer.find("loss not reported", "left a lost lease without an error", client.name)
    observer.left(turn, lost=reported or was_lost)
