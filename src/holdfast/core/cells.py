"""Optimistic updates: read, compute a new value, write it if the version is the same; else again.

What can happen at any yield below, and what then:

- The reply to a read is lost: nothing was done, and the error says so.
- The reply to a write is lost: the outcome is unknown, and the error says so. The write is not
  repeated, since an update that had been done would be done twice.
- The caller is cancelled or interrupted: the same, without an error of ours. Nothing is to be
  cleaned up.
- Another client writes in between: pause for a random time, longer each time, and read again.
- An earlier value returns: it has another version, so it is not mistaken for the first.
"""

from collections.abc import Callable
from math import inf
from typing import TypeVar

from holdfast.core.effects import Sleep, Steps, ask, pause_after
from holdfast.core.holding import unavailable
from holdfast.core.messages import Answer, Done, Failed, Read, Write
from holdfast.core.ports import NODE_TIMEOUT
from holdfast.core.records import Versioned
from holdfast.core.runtime import Runtime
from holdfast.errors import UpdateTimeout
from holdfast.options import check_value

V = TypeVar("V", bound=bytes | str)
FIRST_PAUSE, LONGEST_PAUSE = 0.002, 0.1


def get(runtime: Runtime, key: str, name: str) -> Steps[Versioned]:
    """What is in the cell."""
    answer: Answer
    [answer] = yield ask(Read(key), runtime.clock() + NODE_TIMEOUT)
    if isinstance(answer, Versioned):
        return answer
    raise unavailable(f"the cell {name!r} was not read, and nothing was set", answer)


def put(runtime: Runtime, key: str, name: str, value: bytes | str, expect: int) -> Steps[bool]:
    """Set the cell if its version is still `expect`; False if it is not."""
    answer: Answer
    [answer] = yield ask(Write(key, value, expect), runtime.clock() + NODE_TIMEOUT)
    if type(answer) is Failed:
        raise unavailable(
            f"outcome unknown: the cell {name!r} was set, or was not, and then its version is "
            f"still {expect}; read it before you go on",
            answer,
        )
    return type(answer) is Done


def update(
    runtime: Runtime,
    key: str,
    name: str,
    fn: Callable[[bytes | str | None], V],
    timeout: float | None,
) -> Steps[V]:
    """Set the cell to `fn(value)`, and return that; `fn` is called for each try."""
    give_up_at = inf if timeout is None else runtime.clock() + timeout
    tries = 0
    while True:
        seen = yield from get(runtime, key, name)
        value = fn(seen.value)
        check_value("fn", value)
        if (yield from put(runtime, key, name, value, seen.version)):
            return value
        now = runtime.clock()
        if now >= give_up_at:
            raise UpdateTimeout(name, timeout or 0.0, tries + 1)
        pause = pause_after(tries, runtime.uniform, FIRST_PAUSE, LONGEST_PAUSE)
        yield Sleep(min(now + pause, give_up_at))
        tries += 1
