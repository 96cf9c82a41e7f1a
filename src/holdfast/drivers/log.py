"""Events as lines of the `holdfast` logger. A failure that repeats is logged once in a while.

A lost majority fails every renewal of every lease, many times a second. One line for each cause
(and node), with the number of lines left out since, is enough.
"""

import logging
import re
from collections.abc import Callable

from holdfast.events import (
    AcquireFailed,
    Event,
    HookFailed,
    InternalError,
    NodeFailed,
    NodeQuarantined,
    NodeRecovered,
    RenewalFailed,
)

logger = logging.getLogger("holdfast")

REPEAT_AFTER = 30.0
"""Seconds between two lines with the same cause."""

MOST_CAUSES = 1000
"""How many causes are remembered."""


class EventLog:
    """Logs events. There is one for all clients of a process."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: dict[tuple[object, ...], tuple[float, int]] = {}
        """By cause: when it was logged last, and how many lines were left out since."""

    def __call__(self, event: Event) -> None:
        """Log an event, unless the same was logged a moment ago."""
        left_out = self._left_out(event)
        if left_out is None:
            return
        more = f" ({left_out} more like this since the last line)" if left_out else ""
        error = event.error if isinstance(event, InternalError) else None
        logger.log(event.level, "%s%s", event, more, exc_info=error, extra=dict(event.facts))

    def reset(self) -> None:
        """Log every cause anew."""
        self._seen.clear()

    def _left_out(self, event: Event) -> int | None:
        """How many lines like this were left out; None: leave this one out, too."""
        cause = _cause(event)
        if cause is None:
            return 0
        now = self._clock()
        logged_at, left_out = self._seen.get(cause, (now - REPEAT_AFTER, 0))
        if now < logged_at + REPEAT_AFTER:
            self._seen[cause] = logged_at, left_out + 1
            return None
        if len(self._seen) >= MOST_CAUSES:
            self._seen.clear()
        self._seen[cause] = now, 0
        return left_out


def _cause(event: Event) -> tuple[object, ...] | None:
    """What makes two events alike; None: each is logged. Times and ports in a reason vary."""
    if isinstance(event, NodeFailed):
        return NodeFailed, event.node, re.sub(r"\d+", "", event.why)
    if isinstance(event, (NodeRecovered, NodeQuarantined)):
        return type(event), event.node
    if isinstance(event, HookFailed):
        return HookFailed, event.where, type(event.error)
    if isinstance(event, (AcquireFailed, RenewalFailed)):
        return type(event), re.sub(r"\d+", "", event.why)
    return None
