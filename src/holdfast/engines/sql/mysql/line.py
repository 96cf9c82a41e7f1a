"""Who waits for what, and how often to ask again where a server wakes nobody.

Those of one client who wait for the same name stand in line. Only the first of them asks. The next
one is woken when that one has got the lock, or has given up; and the first is, when this client
gives the lock back. So a crowd costs no more than one.

The first asks again soon, and then ever less often, and no later than when the holder's time is
over: a waiter asks the server less than once a second, after some seconds.
"""

import random
import threading

from holdfast.core.messages import Acquire, Answer, Granted, Release, Request
from holdfast.core.ports import Notify
from holdfast.engines.sql.waiting import Waiting

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 2.0
"""Between questions of the first in line; the second is 1.5 s on average."""

BEHIND = 10.0
"""After how long, at the latest, those behind ask for themselves, whatever became of the first."""


class Line(Waiting):
    """The waiters of one client, by name, in the order of their arrival."""

    def __init__(self, notify: Notify) -> None:
        super().__init__(notify)
        self._lines: dict[str, dict[str, int]] = {}
        """The holder ids for each key, and how often each has asked as the first."""
        self._mutex = threading.Lock()

    def expect(self, holder: str) -> None:
        """Nobody listens for those who wait, so it makes no difference."""

    def pause(self, request: Acquire, remaining: float) -> float:
        """How long to wait before asking again for a lock whose holder has so much time left."""
        with self._mutex:
            line = self._lines.setdefault(request.key, {})
            tries = line.setdefault(request.holder, 0)
            if next(iter(line)) != request.holder:
                return _about(BEHIND)
            line[request.holder] += 1
        ceiling = min(FIRST_PAUSE * 2 ** min(tries, 20), LONGEST_PAUSE)
        return min(_about(ceiling), remaining * random.uniform(1, 1.25))  # noqa: S311 - no secret

    def note(self, request: Request, answer: Answer) -> None:
        """Keep in mind who waits; whoever is the first now is to ask."""
        if not self._lines:
            return  # nobody waits
        if isinstance(request, Release) or (
            isinstance(request, Acquire) and isinstance(answer, Granted)
        ):
            self._leave(request.key, request.holder)

    def forget(self) -> None:
        """In a forked child: nobody waits."""
        self._lines.clear()
        self._mutex = threading.Lock()

    def _leave(self, key: str, holder: str) -> None:
        with self._mutex:
            line = self._lines.get(key)
            if line is None:
                return
            was_first = next(iter(line)) == holder
            is_waiter = line.pop(holder, None) is not None
            if not line:
                del self._lines[key]
                return
            first = next(iter(line))
        if was_first or not is_waiter:
            self.wake(first)


def _about(seconds: float) -> float:
    return random.uniform(seconds / 2, seconds)  # noqa: S311 - no secret
