"""The commands of Redis that the scripts use, each with the words that it takes and its reply."""

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.lab.simulator.keyspace import OK, Keyspace


class CommandError(Exception):
    """A server cannot make sense of a command."""


def perform(db: Keyspace, words: Sequence[bytes]) -> Any:
    """Carry out one of them; None is a reply, too: there is nothing."""
    command = COMMANDS.get(words[0].upper())
    if command is None:
        raise CommandError(f"unknown command {words[0]!r}")
    try:
        return command(db, *words[1:])
    except (TypeError, ValueError) as error:
        raise CommandError(f"{words!r}: {error}") from error


def _set(db: Keyspace, key: bytes, value: bytes, *options: bytes) -> Any:
    match [option.upper() for option in options]:
        case []:
            db.set(key, value)
        case [b"PX", px]:
            db.set(key, value, int(px))
        case [b"KEEPTTL"]:
            db.set_keep_ttl(key, value)
        case [b"NX"]:
            return OK if db.set_nx(key, value) else None
        case [b"NX", b"PX", px] | [b"PX", px, b"NX"]:
            return OK if db.set_nx(key, value, int(px)) else None
        case _:
            raise CommandError(f"SET with {options!r}")
    return OK


def _time(db: Keyspace) -> list[bytes]:
    seconds, micros = divmod(db.time(), 1_000_000)
    return [b"%d" % seconds, b"%d" % micros]


def _zadd(db: Keyspace, key: bytes, option: bytes, score: bytes, member: bytes) -> int:
    if option.upper() != b"NX":
        raise CommandError(f"ZADD with {option!r}")
    return db.zadd_nx(key, float(score), member)


def _zrange(db: Keyspace, key: bytes, first: bytes, last: bytes) -> list[bytes]:
    members = db.zrange(key)
    start, stop = (int(end) + (len(members) if int(end) < 0 else 0) for end in (first, last))
    return members[max(start, 0) : max(stop + 1, 0)]


def _zscore(db: Keyspace, key: bytes, member: bytes) -> bytes | None:
    score = db.zscore(key, member)
    return None if score is None else b"%.17g" % score


def _zpopmin(db: Keyspace, key: bytes) -> list[bytes]:
    popped = db.zpopmin(key)
    return [] if popped is None else [popped[0], b"%.17g" % popped[1]]


def _pubsub(db: Keyspace, what: bytes, *channels: bytes) -> list[Any]:
    if what.upper() != b"NUMSUB":
        raise CommandError(f"PUBSUB {what!r}")
    return [each for channel in channels for each in (channel, db.listeners(channel))]


COMMANDS: dict[bytes, Callable[..., Any]] = {
    b"GET": Keyspace.get,
    b"SET": _set,
    b"DEL": lambda db, *keys: sum(map(db.delete, keys)),
    b"EXISTS": lambda db, *keys: sum(map(db.exists, keys)),
    b"PTTL": Keyspace.pttl,
    b"PEXPIRE": lambda db, key, px: db.pexpire(key, int(px)),
    b"TIME": _time,
    b"ZADD": _zadd,
    b"ZREM": Keyspace.zrem,
    b"ZRANGE": _zrange,
    b"ZSCORE": _zscore,
    b"ZPOPMIN": _zpopmin,
    b"PUBLISH": lambda db, channel, message: db.publish(channel, message),
    b"PUBSUB": _pubsub,
}
