"""How names become Redis keys.

The lock is a plain string under its own key, as any other client of the Redlock algorithm would
keep it. What belongs to it has a key beside it: `{key}:fence`, `{key}:queue`, `{key}:members`,
`{key}:cell`, and with some options more.

1. On a single server and over a quorum, the key of a lock is its name with the prefix, unchanged.
   So other clients that lock the same key exclude holdfast and are excluded.
2. A name that looks like a key of the second kind (`{job}:fence`, with `prefix=""`) gets a NUL
   character behind it, which no name contains. So distinct names never have one key.
3. In a cluster, `%`, `{` and `}` are written `%25`, `%7B` and `%7D`: all keys of a lock must have
   one slot, and braces in the name would give them several.
"""

import re
from typing import NamedTuple

# Earlier versions used `{key}:wait`, too. A name that looks like it must keep its key.
_BESIDE = re.compile(
    r"\{.*\}:(fence|queue(:guard|:kinds|:writer)?|members|cell|wait|holder|max_ttl)", re.DOTALL
)


class Keys(NamedTuple):
    """The keys of one lock."""

    lock: bytes
    fence: bytes
    queue: bytes

    @property
    def of_shares(self) -> tuple[bytes, bytes]:
        """The keys that scripts find by themselves while the lock is shared: `members`, and those
        in the queue that would share it, `kinds`. A cluster must know of them beforehand: while
        their slot moves, a key that is on another node looks like one that is missing."""
        return b"{%b}:members" % self.lock, self.queue + b":kinds"


def keys_of(key: str, *, in_cluster: bool = False) -> Keys:
    """The Redis keys of a lock.

    >>> keys_of("holdfast:job{1}").fence
    b'{holdfast:job{1}}:fence'
    >>> keys_of("holdfast:job{1}", in_cluster=True).lock
    b'holdfast:job%7B1%7D'
    """
    if in_cluster:
        lock = _escape(key).encode()
    else:
        lock = f"{key}\0".encode() if _BESIDE.fullmatch(key) else key.encode()
    return Keys(lock, b"{%b}:fence" % lock, b"{%b}:queue" % lock)


def shares_of(value: str) -> int | None:
    """How many may share a lock whose key has this value; None if it is that of one holder.

    >>> shares_of("shared 3"), shares_of("host/1/program/5ec2e7")
    (3, None)
    """
    shares = value.removeprefix("shared ")
    return int(shares) if shares != value and shares.isdecimal() else None


def fences_like(prefix: str, *, in_cluster: bool = False) -> bytes:
    """A pattern for the counters of all locks whose keys begin like this."""
    plain = _escape(prefix) if in_cluster else prefix
    for special in "\\*?[]":
        plain = plain.replace(special, "\\" + special)
    return b"{%b*}:fence" % plain.encode()


def key_of_fence(fence: bytes, *, in_cluster: bool = False) -> str | None:
    """The key of a lock, given that of its counter; None if it is not one of ours.

    >>> key_of_fence(keys_of("holdfast:job{1}").fence)
    'holdfast:job{1}'
    """
    try:
        key = fence[1 : -len("}:fence")].decode()
    except UnicodeDecodeError:
        return None
    if in_cluster:
        return key.replace("%7D", "}").replace("%7B", "{").replace("%25", "%")
    return key.removesuffix("\0")


def _escape(key: str) -> str:
    return key.replace("%", "%25").replace("{", "%7B").replace("}", "%7D")
