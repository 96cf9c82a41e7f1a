"""Looking at locks, and breaking one."""

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import TypeVar, cast

from holdfast.core.effects import Sleep, Steps, ask, spread
from holdfast.core.holding import unavailable
from holdfast.core.messages import Break, Done, Failed, Inspect, List, Listing, Seen
from holdfast.core.ports import NODE_TIMEOUT
from holdfast.core.records import LeaseInfo, Member
from holdfast.core.runtime import Runtime
from holdfast.errors import EngineUnavailable
from holdfast.events import Broken

T = TypeVar("T")

PAGE = 500


def inspect(runtime: Runtime, prefix: str, name: str) -> Steps[LeaseInfo | None]:
    """The holder of this name; None if it is free."""
    found = yield from _look(runtime, prefix, Inspect(prefix + name))
    return found[0] if found else None


def is_held(runtime: Runtime, key: str) -> Steps[bool]:
    """Whether any client holds it."""
    return bool((yield from _look(runtime, "", Inspect(key))))


def page(runtime: Runtime, prefix: str, start: str, after: str) -> Steps[list[LeaseInfo]]:
    """The next leases whose names begin with `start` and come after `after`; none: no more."""
    return (yield from _look(runtime, prefix, List(prefix + start, prefix + after, PAGE)))


def break_lock(runtime: Runtime, prefix: str, name: str, holder: str = "") -> Steps[bool]:
    """Take the lock away from its holders, or from this one; False if there is none."""
    [answer] = yield ask(Break(prefix + name, holder), runtime.clock() + NODE_TIMEOUT)
    if type(answer) is Failed:
        unknown = f"it is unknown whether {name!r} was broken, so look again"
        raise unavailable(f"the engine is unreachable; {unknown}", answer)
    is_broken = type(answer) is Done
    if is_broken:
        runtime.emit(Broken(name, holder))
    return is_broken


def poll(
    runtime: Runtime,
    look: Callable[[], Steps[T]],
    is_it: Callable[[T], bool],
    retry: float,
    failing_for: float,
    give_up_at: float = inf,
) -> Steps[T]:
    """Look every `retry` seconds until what is found is it, or until `give_up_at`; gives what was
    found last. An engine that fails is asked again until then, or for `failing_for` seconds where
    there is no limit."""
    failing_since = inf
    while True:
        try:
            found = yield from look()
            if is_it(found) or runtime.clock() >= give_up_at:
                return found
            failing_since = inf
        except EngineUnavailable:
            failing_since = min(failing_since, runtime.clock())
            limit = failing_since + failing_for if give_up_at == inf else give_up_at
            if runtime.clock() >= limit:
                raise
        pause = spread(retry, runtime.uniform)
        yield Sleep(min(runtime.clock() + pause, give_up_at))


def _look(runtime: Runtime, prefix: str, request: Inspect | List) -> Steps[list[LeaseInfo]]:
    answer = yield from _read(runtime, request)
    while answer.cursor:
        request = replace(cast(List, request), cursor=answer.cursor)
        answer = yield from _read(runtime, request)
    return [_info(prefix, seen) for seen in answer.leases]


def _read(runtime: Runtime, request: Inspect | List) -> Steps[Listing]:
    asking = ask(request, runtime.clock() + NODE_TIMEOUT)
    [answer] = yield asking
    if type(answer) is Failed and answer.heals_in is None and runtime.clock() < asking.until:
        [answer] = yield asking  # a connection was lost, and a look may be repeated
    if type(answer) is Failed:
        raise unavailable("the engine is unreachable; nothing was read", answer)
    return cast(Listing, answer)


def _info(prefix: str, seen: Seen) -> LeaseInfo:
    name = seen.key.removeprefix(prefix)
    members = tuple(Member(*one) for one in ((seen.holder, seen.remaining), *seen.others))
    return LeaseInfo(
        name, seen.holder, seen.fence, seen.remaining, seen.waiters, seen.shares, members
    )
