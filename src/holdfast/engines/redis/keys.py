"""How names become Redis keys.

A lock is a plain string under its own key, as any other client of the Redlock algorithm would keep
it. What belongs to it lies beside it, in the same slot of a cluster: `{key}:fence`, `{key}:queue`
and, where scripts want them, `{key}:queue:guard` and `{key}:queue:next`. So that neither slots nor
names can be confused, `%`, `{` and `}` are written `%25`, `%7B` and `%7D`.
"""

from typing import NamedTuple


class Keys(NamedTuple):
    """The keys of one lock."""

    lock: bytes
    fence: bytes
    queue: bytes


def keys_of(key: str) -> Keys:
    """The Redis keys of a lock.

    >>> keys_of("holdfast:job{1}").fence
    b'{holdfast:job%7B1%7D}:fence'
    """
    lock = _escape(key).encode()
    return Keys(lock, b"{%b}:fence" % lock, b"{%b}:queue" % lock)


def fences_like(prefix: str) -> bytes:
    """A pattern for the counters of all locks whose keys begin like this."""
    plain = _escape(prefix)
    for special in "\\*?[]":
        plain = plain.replace(special, "\\" + special)
    return b"{%b*}:fence" % plain.encode()


def key_of_fence(fence: bytes) -> str:
    """The lock's key, given its counter's.

    >>> key_of_fence(keys_of("holdfast:job{1}").fence)
    'holdfast:job{1}'
    """
    escaped = fence[1 : -len("}:fence")].decode()
    return escaped.replace("%7D", "}").replace("%7B", "{").replace("%25", "%")


def _escape(key: str) -> str:
    return key.replace("%", "%25").replace("{", "%7B").replace("}", "%7D")
