"""What each script must do to a lock, as rules that a call keeps or breaks.

They were not made from the scripts: a mistake in a script breaks one of them. Lives are in
milliseconds, instants in microseconds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

SECOND = 1_000_000
MINUTE = 60 * SECOND


@dataclass(frozen=True)
class Lock:
    """One lock on a server, with its counter and its queue."""

    owner: str | None
    left: int
    counter: int | None
    counter_left: int
    waiting: tuple[str, ...]
    """Channel and holder of each, in order."""
    queue_left: int

    def first_of(self, holders: frozenset[str]) -> str | None:
        """The first in the queue that is one of these."""
        return next((h for h in map(_holder, self.waiting) if h in holders), None)


@dataclass(frozen=True)
class Call:
    """A call of a script about one lock, and what came of it."""

    script: str
    argv: list[str | int]
    reply: Any
    before: Lock
    after: Lock
    now: int
    listening: frozenset[str]
    """The holders whose wake-ups have a subscriber."""
    published: tuple[str, ...] = ()
    """All that was published. It may be received elsewhere, though it has no subscriber here."""


def _holder(waiter: str) -> str:
    return waiter.partition(" ")[2]


def _ballot(name: str) -> tuple[str, int]:
    """Whose it is, and which of the same holder's."""
    holder, _, number = name.partition("#")
    return holder, int(number or 0)


def _gives_way(owner: str | None, name: str) -> bool:
    """Whether a lock is free for a ballot: it is not held, or by one not after it."""
    if owner is None:
        return True
    (whose, last), (holder, number) = _ballot(owner), _ballot(name)
    return whose == holder and last <= number


def broken(call: Call) -> list[str]:
    """The rules that it broke."""
    return [rule for rule, kept in [*_always(call), *_RULES[call.script](call)] if not kept]


Rules = Iterator[tuple[str, bool]]


def _always(call: Call) -> Rules:
    before, after = call.before, call.after
    yield "a lock ends by itself", after.owner is None or after.left > 0
    yield "a queue ends by itself", not after.waiting or after.queue_left > 0
    if after.owner is not None and after.owner != before.owner:
        yield "every grant has a counter", after.counter is not None
        yield "that does not end before the lock", after.counter_left > after.left
    counter, last = after.counter or 0, before.counter or 0
    yield "no counter goes back", counter >= last
    given = call.script in ("raise", "repair") or counter // SECOND == last // SECOND
    ahead = not given and counter > last + 1
    yield "no counter runs ahead", not ahead or abs(counter - call.now) <= MINUTE + SECOND


def _granting(call: Call, ttl: int, keep: int, channel: str, holder: str) -> Rules:
    before, after = call.before, call.after
    me = (f"{channel} {_ballot(holder)[0]}",)
    if not _gives_way(before.owner, holder):
        yield "what is held stays so", after.owner == before.owner and after.left == before.left
        yield "it gets the holder", call.reply == [before.left, str(before.owner).encode()]
        joined = before.waiting if me[0] in before.waiting or not channel else before.waiting + me
        yield "who wants to wait, waits behind all others", after.waiting == joined
        yield "and the queue lasts for it", not channel or after.queue_left >= before.left + keep
    elif isinstance(call.reply, int):
        again = before.owner == holder
        yield "a granted lock is held", after.owner == holder
        yield "the reply is the counter", call.reply == after.counter
        yield "it is granted for the ttl", after.left == max(ttl, before.left if again else 0)
        yield "the counter is kept", after.counter_left == keep
        yield "who has it waits no more", again or not channel or me[0] not in after.waiting
        if again and before.counter is not None:
            yield "pending again gives the same", after.counter == before.counter
        elif before.counter is not None:
            yield "fences grow", (after.counter or 0) > before.counter


def _acquire(call: Call) -> Rules:
    ttl, keep, offer, channel, holder = call.argv
    yield from _granting(call, int(ttl), int(keep), str(channel), str(holder))
    if call.before.owner is None and isinstance(call.reply, list):
        yield from _passed_on(call, int(offer), int(keep))
    elif call.before.owner is None and channel:
        first = call.before.first_of(call.listening)
        yield "no waiter is passed over", first in (None, holder)


def _vote(call: Call) -> Rules:
    ttl, keep, *channel, proposed, holder = call.argv
    yield from _granting(call, int(ttl), int(keep), "".join(map(str, channel)), str(holder))
    free = call.before.owner is None
    granted = isinstance(call.reply, int)
    yield "a free lock is granted", granted or not _gives_way(call.before.owner, str(holder))
    near = abs(int(proposed) - call.now) < MINUTE - SECOND
    if free and near and int(proposed) > (call.before.counter or 0):
        yield "what is proposed is granted", call.after.counter == proposed


def _passed_on(call: Call, offer: int, keep: int) -> Rules:
    before, after = call.before, call.after
    first = before.first_of(call.listening)
    yield "the first who listens gets it", after.owner == first
    yield "that takes a fence", (after.counter or 0) > (before.counter or 0)
    yield "an offer is short", after.left == offer
    yield "and keeps the counter", after.counter_left == keep
    yield "and is published", first in call.published


def _letting_go(call: Call, channel: str, holder: str) -> Rules:
    before, after = call.before, call.after
    me = _ballot(holder)[0]
    if before.owner != holder:
        yield "a release leaves the queue", f"{channel} {me}" not in after.waiting
    mine = holder == "" or _gives_way(before.owner, holder)
    if holder == me and before.owner is not None:
        mine = mine or _ballot(before.owner)[0] == me  # in its own name: all of them
    code = -1 if before.owner is None else int(mine)
    yield "it answers whether it was theirs", call.reply == code
    if code == 0:
        yield "only mine is released", after.owner == before.owner and after.left == before.left
    elif code < 0:
        yield "what is free stays free", after.owner is None


def _release(call: Call) -> Rules:
    keep, offer, channel, holder = call.argv
    yield from _letting_go(call, str(channel), str(holder))
    if call.reply == 1 and call.before.first_of(call.listening) is not None:
        yield from _passed_on(call, int(offer), int(keep))
    elif call.reply == 1:
        yield "what is released is free", call.after.owner is None


def _unvote(call: Call) -> Rules:
    waking, holder = map(str, call.argv)
    later, _, channel = waking.partition(" ")
    yield from _letting_go(call, channel, holder)
    stays = call.after.waiting == call.before.waiting
    yield "one that goes on waiting keeps its place", channel != "" or call.reply == 1 or stays
    yield "no waiter is woken unless that is wanted", later != "" or not call.published
    yield "what is released is free", call.reply != 1 or call.after.owner is None


def _extend(call: Call) -> Rules:
    keep, ttl, holder = call.argv
    before, after = call.before, call.after
    mine = before.owner == holder
    yield (
        "it answers whether it is theirs",
        call.reply == (1 if mine else 0 if before.owner else -1),
    )
    yield "nothing comes back", after.owner == before.owner
    left = max(before.left, int(ttl)) if mine else before.left
    yield "it is prolonged, and never shortened", after.left == left
    if mine and before.counter is not None:
        yield "the counter is kept", after.counter_left == left + int(keep)
    yield "it takes no fence", after.counter == before.counter


def _raise(call: Call) -> Rules:
    fence, _, holder = call.argv
    before, after = call.before, call.after
    may = before.owner == holder and (before.counter or 0) <= int(fence)
    yield "only what is mine, and upwards", call.reply == int(may)
    yield "the counter is the fence", after.counter == (int(fence) if may else before.counter)
    yield "the lock is as it was", (after.owner, after.left) == (before.owner, before.left)
    yield "the counter ends", after.counter is None or after.counter_left > 0


def _repair(call: Call) -> Rules:
    ttl, keep, fence, _, holder = call.argv
    before, after = call.before, call.after
    if before.owner is not None:
        yield "no holder is replaced", (after.owner, after.left) == (before.owner, before.left)
        yield "it answers whose it is", call.reply == int(before.owner == holder)
        return
    yield "it is put back", (after.owner, after.left, call.reply) == (holder, int(ttl), 1)
    yield (
        "the counter is the fence, at least",
        after.counter == max(before.counter or 0, int(fence)),
    )
    if (before.counter or 0) < int(fence):
        yield "and is kept", after.counter_left == int(keep)


_RULES = {
    "acquire": _acquire,
    "release": _release,
    "vote": _vote,
    "unvote": _unvote,
    "extend": _extend,
    "raise": _raise,
    "repair": _repair,
}
