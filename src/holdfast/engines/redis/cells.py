"""Cells on Redis, by WATCH, MULTI and EXEC. Pure: the commands, for a connection of its own.

A cell is a hash beside where a lock of its name would be, `{key}:cell`, with the fields `value`,
`version` and `text` (1 or 0). The first version is the server's clock in microseconds and the
following ones count on from there, so that a cell which was deleted and made anew does not repeat
its versions.

With `replicas`, a write is done when that many replicas have acknowledged it. If fewer have, it is
there all the same unless a failover undoes it: the answer is `Failed`, with an unknown outcome.

redis-py's own transactions are not used: they report a connection that broke during EXEC as a
`WatchError`, as if nothing had been done, though the outcome is unknown.
"""

from holdfast.core.messages import CHANGED, DONE, Read, Write
from holdfast.core.records import Versioned
from holdfast.engines.redis.keys import keys_of
from holdfast.engines.redis.protocol import (
    Answers,
    Exchange,
    Reply,
    command,
    confirmed,
    failed,
)


def cell_exchange(request: Read | Write, replicas: int, *, in_cluster: bool = False) -> Exchange:
    """The commands for a request."""
    key = b"{%b}:cell" % keys_of(request.key, in_cluster=in_cluster).lock
    return _read(key) if isinstance(request, Read) else _write(key, request, replicas)


def _read(key: bytes) -> Exchange:
    def read(replies: list[Reply]) -> Answers:
        [reply] = replies
        if isinstance(reply, Exception):
            return [failed(reply)]
        value, version, is_text = reply
        if version is None:
            return [Versioned(None, 0)]
        try:
            return [Versioned(value.decode() if is_text == b"1" else value, int(version))]
        except (ValueError, AttributeError):
            return [failed(f"{key.decode()!r} is not a cell")]

    return Exchange((command(b"HMGET", key, b"value", b"version", b"text"),), read)


def _write(key: bytes, request: Write, replicas: int) -> Exchange:
    def compare(replies: list[Reply]) -> Answers | Exchange:
        for reply in replies[1:]:  # a user who may not UNWATCH can do without
            if isinstance(reply, Exception):
                return [failed(reply)]
        *_, found, (seconds, micros) = replies
        try:
            version = int(found or 0)
        except ValueError:
            return [failed(f"{key.decode()!r} is not a cell")]
        if version != request.expect:
            return [CHANGED]
        first = int(seconds) * 1_000_000 + int(micros)
        return _set(key, request.value, version + 1 if version else first, replicas)

    unwatch = command(b"UNWATCH")  # what was watched before, and not written
    watch, version = command(b"WATCH", key), command(b"HGET", key, b"version")
    return Exchange((unwatch, watch, version, command(b"TIME")), compare)


def _set(key: bytes, value: bytes | str, version: int, replicas: int) -> Exchange:
    def read(replies: list[Reply]) -> Answers:
        for reply in replies:
            if isinstance(reply, Exception):
                return [failed(reply)]
        return [CHANGED if replies[2] is None else DONE]  # that of EXEC

    is_text = isinstance(value, str)
    raw = value.encode() if isinstance(value, str) else value
    fields = (b"value", raw, b"version", b"%d" % version, b"text", b"%d" % is_text)
    commands = (command(b"MULTI"), command(b"HSET", key, *fields), command(b"EXEC"))
    return Exchange(commands, confirmed(read, replicas))
