"""Electing a leader: the holder of a lock, who publishes a value in a cell beside it.

1. To win is to hold the lock; the fence of the lease is the term.
2. The winner publishes a record in the cell: its holder id, its term and its value. Only then has
   it won as far as others can see, and only then does its campaign end.
3. The leader is the holder whose record is in the cell, for as long as the lock is its own.

What can happen, and what then:

- The winner dies before it has published: the record names an earlier holder, so there is no
  leader until the lease has expired and another candidate has won. A former value is never shown.
- A stale winner publishes late: a record of a later term is never replaced, and the write is a
  compare-and-set, so one that is carried out late changes nothing.
- The reply to the write is lost: it is written again, which makes no difference.
- The cells are unreachable, and the lock is not: after one ttl the campaign fails, and the lock is
  released.
- The lock is lost before the record is written: the campaign raises the loss.
- The caller is interrupted, cancelled or closed: the renewer releases the lock. The record stays,
  and is the leader's no more.
- The lock changes hands between the two reads of `leader`: the record is of a later term than the
  lease that was seen, so both are read again.
- A holder of the lock is no candidate: it has no record, so it does not lead.
- The cell holds something else: `ValueError`.
"""

import json
from itertools import count

from holdfast.core.acquire import acquire
from holdfast.core.cells import FIRST_PAUSE, LONGEST_PAUSE, get, put
from holdfast.core.effects import Sleep, Steps, pause_after
from holdfast.core.lease_state import LeaseState, LockSpec
from holdfast.core.queries import inspect, poll
from holdfast.core.records import Leader
from holdfast.core.release import abandon
from holdfast.core.runtime import Runtime
from holdfast.errors import EngineUnavailable, LockLost


def campaign(
    runtime: Runtime,
    spec: LockSpec,
    holder: str,
    timeout: float | None,
    cell: str | None,
    value: str,
) -> Steps[LeaseState | None]:
    """Get the lock, as `acquire` does, and publish the value in the cell of that name; an engine
    without cells has none."""
    lease = yield from acquire(runtime, spec, holder, timeout)
    if lease is None or cell is None:
        return lease
    try:
        yield from _publish(runtime, lease, cell, value)
        return lease
    except BaseException:
        abandon(runtime, spec, lease.holder)
        raise


def _publish(runtime: Runtime, lease: LeaseState, cell: str, value: str) -> Steps[None]:
    spec, mine = lease.spec, Leader(value, lease.fence, lease.holder)
    give_up_at = runtime.clock() + spec.ttl
    for tries in count():
        lease.require_held(runtime.clock())
        try:
            seen = yield from get(runtime, spec.prefix + cell, cell)
            published = read_record(cell, seen.value)
            if published is not None and published.term > mine.term:
                raise LockLost(spec.name, mine.term, "a leader of a later term has published")
            record = write_record(mine)
            if (yield from put(runtime, spec.prefix + cell, cell, record, seen.version)):
                return
        except EngineUnavailable:
            if runtime.clock() >= give_up_at:
                raise
        pause = pause_after(tries, runtime.uniform, FIRST_PAUSE, LONGEST_PAUSE)
        yield Sleep(runtime.clock() + pause)


def leader(runtime: Runtime, spec: LockSpec, cell: str | None) -> Steps[Leader | None]:
    """Who leads now; None if there is no leader."""
    before = ""
    while True:
        info = yield from inspect(runtime, spec.prefix, spec.name)
        if info is None or info.shares != 1:
            return None
        if cell is None:
            return Leader("", info.fence, info.holder)
        seen = yield from get(runtime, spec.prefix + cell, cell)
        published = read_record(cell, seen.value)
        if published is None:
            return None
        if (published.term, published.holder) == (info.fence, info.holder):
            return published
        if published.term < info.fence or info.holder == before:
            return None  # the holder has not published
        before = info.holder


def next_leader(
    runtime: Runtime, spec: LockSpec, cell: str | None, last: object
) -> Steps[Leader | None]:
    """Wait until the leader is not the `last` one that was seen, and give it. An engine that fails
    is asked again for one ttl, as by a waiter for the lock."""
    return (
        yield from poll(
            runtime,
            lambda: leader(runtime, spec, cell),
            lambda found: found != last,
            spec.retry,
            spec.ttl,
        )
    )


def write_record(leader: Leader) -> str:
    """What the cell holds.

    >>> write_record(Leader("10.0.0.7:8080", 42, "web-3/4711/app/1f0c"))
    '{"holder": "web-3/4711/app/1f0c", "term": 42, "value": "10.0.0.7:8080"}'
    """
    return json.dumps({"holder": leader.holder, "term": leader.term, "value": leader.value})


def read_record(cell: str, content: bytes | str | None) -> Leader | None:
    """What was published; None if nothing was yet."""
    if content is None:
        return None
    try:
        record = json.loads(content)
        found = Leader(record["value"], record["term"], record["holder"])
    except (ValueError, TypeError, KeyError):
        found = None
    if found is None or [type(each) for each in (found.value, found.term, found.holder)] != [
        str,
        int,
        str,
    ]:
        raise ValueError(
            f"name: its cell {cell!r} is in use for something else: it holds {content!r}, and not "
            "the record of a leader"
        )
    return found
