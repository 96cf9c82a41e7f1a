"""A latch: a set of participants in a cell, which only grows. It is open when there are enough.

What can happen, and what then:

- A participant restarts and counts down again: it is in the set already.
- The reply to a count is lost: the outcome is unknown, and the error says so. To count again is
  harmless.
- Two count down at once: one of the two writes is refused, and tried again.
- Clients give different counts: each waits for its own.
- A waiter restarts: the set is still there.
- The cell holds something else: `ValueError`.
"""

import json
from math import inf

from holdfast.core.cells import get, update
from holdfast.core.effects import Steps
from holdfast.core.queries import poll
from holdfast.core.runtime import Runtime


def count_down(
    runtime: Runtime, key: str, cell: str, participant: str, timeout: float
) -> Steps[frozenset[str]]:
    """Add a participant to the set; gives the set."""

    def add(content: bytes | str | None) -> str:
        return json.dumps(sorted(read_participants(cell, content) | {participant}))

    content = yield from update(runtime, key, cell, add, timeout)
    return read_participants(cell, content)


def arrived(runtime: Runtime, key: str, cell: str) -> Steps[frozenset[str]]:
    """Those that have counted down."""
    seen = yield from get(runtime, key, cell)
    return read_participants(cell, seen.value)


def wait(
    runtime: Runtime,
    key: str,
    cell: str,
    count: int,
    retry: float,
    failing_for: float,
    timeout: float | None,
) -> Steps[bool]:
    """Wait until `count` participants have counted down; False if they have not by `timeout`."""
    found = yield from poll(
        runtime,
        lambda: arrived(runtime, key, cell),
        lambda found: len(found) >= count,
        retry,
        failing_for,
        inf if timeout is None else runtime.clock() + timeout,
    )
    return len(found) >= count


def read_participants(cell: str, content: bytes | str | None) -> frozenset[str]:
    """What the cell holds.

    >>> sorted(read_participants("latch:ready", '["web-1", "web-2"]'))
    ['web-1', 'web-2']
    """
    try:
        found = [] if content is None else json.loads(content)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ValueError(
            f"name: its cell {cell!r} is in use for something else: it holds {content!r}, and not "
            "the participants of a latch"
        )
    return frozenset(found)
