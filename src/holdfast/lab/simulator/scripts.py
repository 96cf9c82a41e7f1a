"""What the Lua scripts do, in Python: KEYS and ARGV in, the raw reply out.

Each does what the file of its name in `engines/redis/scripts` does, step by step. A test runs both
on the same calls. Words that make no sense raise `ValueError`, which a server tells as an error.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from holdfast.engines.redis.scripts import script
from holdfast.lab.simulator.keyspace import Keyspace

MINUTE = 60_000_000
AT_ONCE, IN_ALL = 2, 4

Words: TypeAlias = Sequence[bytes]
Performed: TypeAlias = Callable[[Keyspace, Words, Words], Any]


def _next_fence(db: Keyspace, counter: bytes, proposed: int, keep: int) -> int:
    now = db.time()
    proposed = max(now - MINUTE, min(proposed or now, now + MINUTE))
    fence = max(int(db.get(counter) or 0) + 1, proposed)
    db.set(counter, b"%d" % fence, keep)
    return fence


def _grant_again(db: Keyspace, lock: bytes, counter: bytes, ttl: int, keep: int) -> int:
    if db.pttl(lock) < ttl:
        db.pexpire(lock, ttl)
    fence = db.get(counter)
    if fence is None:
        return _next_fence(db, counter, 0, keep)
    db.pexpire(counter, keep)
    return int(fence)


def _offer_to_first(
    db: Keyspace, keys: Words, offer: bytes, keep: int, me: bytes = b""
) -> bytes | None:
    lock, counter, queue = keys
    while True:
        first = db.zpopmin(queue)
        if first is None or first == me:
            return None
        channel, _, holder = first.partition(b" ")
        if db.publish(channel, holder):
            db.set(lock, holder, int(offer))
            _next_fence(db, counter, 0, keep)
            for behind in db.zrange(queue)[:10]:
                other, _, waiter = behind.partition(b" ")
                if other != channel:
                    db.publish(other, waiter + b" " + offer)
                    break
            return holder


def _join(db: Keyspace, queue: bytes, left: int, keep: int, me: bytes) -> None:
    db.zadd_nx(queue, db.time(), me)
    db.pexpire(queue, max(left, 0) + keep)


def acquire(db: Keyspace, keys: Words, argv: Words) -> Any:
    """Take the lock of a single server, or join its queue."""
    lock, counter, queue = keys
    ttl, keep, offer, channel, holder = argv
    me = channel + b" " + holder
    owner = db.get(lock)
    if owner == holder:
        return _grant_again(db, lock, counter, int(ttl), int(keep))
    left = int(offer)
    if owner is not None:
        left = db.pttl(lock)
    else:
        owner = _offer_to_first(db, keys, offer, int(keep), me)
        if owner is None:
            db.set(lock, holder, int(ttl))
            return _next_fence(db, counter, 0, int(keep))
    if channel:
        _join(db, queue, left, int(keep), me)
    return [left, owner]


def release(db: Keyspace, keys: Words, argv: Words) -> int:
    """Give back what a holder has on a single server."""
    lock, _, queue = keys
    keep, offer, channel, holder = argv
    owner = db.get(lock)
    if owner is None or (owner != holder and holder):
        db.zrem(queue, channel + b" " + holder)
        return -1 if owner is None else 0
    if _offer_to_first(db, keys, offer, int(keep)) is None:
        db.delete(lock)
    return 1


def extend(db: Keyspace, keys: Words, argv: Words) -> list[int]:
    """Let leases end no earlier than their ttl from now."""
    keep, results = int(argv[0]), []
    for at in range(0, len(keys), 2):
        lock, counter = keys[at], keys[at + 1]
        ttl, holder = int(argv[at + 1]), argv[at + 2]
        owner = db.get(lock)
        if owner == holder:
            left = db.pttl(lock)
            if left < ttl:
                db.pexpire(lock, ttl)
            db.pexpire(counter, max(left, ttl) + keep)
            results.append(1)
        else:
            results.append(-1 if owner is None else 0)
    return results


def vote(db: Keyspace, keys: Words, argv: Words) -> Any:
    """Take the lock of one node of a quorum, or have a place in its waiting room."""
    lock, counter, room = keys
    ttl, keep, channel, proposed, holder = argv
    me = channel + b" " + holder
    owner = db.get(lock)
    if owner == holder:
        return _grant_again(db, lock, counter, int(ttl), int(keep))
    if owner is None:
        db.set(lock, holder, int(ttl))
        if channel:
            db.zrem(room, me)
        return _next_fence(db, counter, int(proposed), int(keep))
    left = db.pttl(lock)
    if channel:
        _join(db, room, left, int(keep), me)
    return [left, owner]


def unvote(db: Keyspace, keys: Words, argv: Words) -> int:
    """Give back what a holder has on one node of a quorum."""
    lock, _, room = keys
    wakes, behind, channel, holder = argv
    owner = db.get(lock)
    db.zrem(room, channel + b" " + holder)
    if owner is not None and owner != holder and holder:
        return 0
    if owner is not None:
        db.delete(lock)
    woken = 0
    while wakes == b"1" and woken < IN_ALL:
        first = db.zpopmin(room)
        if first is None:
            break
        to, _, waiter = first.partition(b" ")
        if woken >= AT_ONCE:
            waiter += b" " + behind
        woken += db.publish(to, waiter) > 0
    return -1 if owner is None else 1


def raise_(db: Keyspace, keys: Words, argv: Words) -> int:
    """Let the counter be a fence that other nodes have granted already."""
    lock, counter = keys
    fence, keep, holder = argv
    if db.get(lock) != holder or int(db.get(counter) or 0) > int(fence):
        return 0
    db.set_keep_ttl(counter, fence)
    if db.pttl(counter) < 0:
        db.pexpire(counter, int(keep))
    return 1


def repair(db: Keyspace, keys: Words, argv: Words) -> int:
    """Put a lease back that this node has forgotten, unless somebody has the lock."""
    lock, counter = keys
    ttl, keep, fence, holder = argv
    if not db.set_nx(lock, holder, int(ttl)):
        return int(db.get(lock) == holder)
    if int(db.get(counter) or 0) < int(fence):
        db.set(counter, fence, int(keep))
    return 1


def inspect(db: Keyspace, keys: Words, argv: Words) -> list[Any]:
    """Look at locks. Who waits is not looked at: whether a waiter lives, nobody asks here."""
    found = []
    for at in range(0, len(keys), 3):
        owner = db.get(keys[at])
        looked = [owner, db.pttl(keys[at]), db.get(keys[at + 1]) or b"0", 0]
        found.append(None if owner is None else looked)
    return found


SCRIPTS: dict[bytes, Performed] = {
    script(name).sha: performed
    for name, performed in (
        ("acquire", acquire),
        ("release", release),
        ("extend", extend),
        ("vote", vote),
        ("unvote", unvote),
        ("raise", raise_),
        ("repair", repair),
        ("inspect", inspect),
    )
}
"""By the names under which a server keeps them."""
