"""Looking at locks, and breaking one."""

from typing import cast

from holdfast.core.effects import Steps, ask
from holdfast.core.holding import unavailable
from holdfast.core.messages import (
    Answer,
    Break,
    Done,
    Failed,
    Inspect,
    List,
    Listing,
    Request,
    Seen,
)
from holdfast.core.records import LeaseInfo
from holdfast.core.tenure import NODE_TIMEOUT
from holdfast.core.world import World

PAGE = 500


def inspect(world: World, prefix: str, name: str) -> Steps[LeaseInfo | None]:
    """Who holds this name; None if nobody does."""
    found = yield from _look(world, prefix, Inspect(prefix + name))
    return found[0] if found else None


def is_held(world: World, key: str) -> Steps[bool]:
    """Whether anybody holds it."""
    return bool((yield from _look(world, "", Inspect(key))))


def page(world: World, prefix: str, start: str, after: str) -> Steps[list[LeaseInfo]]:
    """The next leases whose names begin with `start` and come after `after`; none: no more."""
    return (yield from _look(world, prefix, List(prefix + start, prefix + after, PAGE)))


def break_lock(world: World, prefix: str, name: str) -> Steps[bool]:
    """Take the lock away from whoever has it; False if nobody has."""
    answer = yield from _ask(world, Break(prefix + name))
    return type(answer) is Done


def _look(world: World, prefix: str, request: Inspect | List) -> Steps[list[LeaseInfo]]:
    answer = cast(Listing, (yield from _ask(world, request)))
    return [_info(prefix, seen) for seen in answer.leases]


def _ask(world: World, request: Request) -> Steps[Answer]:
    answer: Answer
    [answer] = yield ask(request, world.clock() + NODE_TIMEOUT)
    if type(answer) is Failed:
        raise unavailable("the engine could not be asked", answer)
    return answer


def _info(prefix: str, seen: Seen) -> LeaseInfo:
    name = seen.key.removeprefix(prefix)
    return LeaseInfo(name, seen.holder, seen.fence, seen.remaining, seen.waiters)
