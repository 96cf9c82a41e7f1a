"""The Redis protocol and our Lua scripts, as far as they are used. Pure: bytes out, replies in.

An `Exchange` is one or more commands that are sent together. When each has its reply, either the
answers are known, or there is something more to send: the next step, or the same again after a
script was loaded. No reply changes it, so it can be sent to several servers at once.
"""

import ssl
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha1
from importlib.resources import files
from math import ceil, inf
from typing import Any, NamedTuple, TypeAlias

import hiredis
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError

from holdfast.core.fanout import FanOut
from holdfast.core.messages import Answer, Done, Failed, Granted, Release
from holdfast.engines.urls import hint_for_tls

Reply: TypeAlias = Any
"""What the parser makes of a reply; an error is an exception, returned and not raised."""

Answers: TypeAlias = Sequence[Answer]

BROKEN = (OSError, EOFError, RedisError, hiredis.HiredisError)
"""What a connection may raise: it is of no use any more, or could not be made."""

CLOSED = "the server closed the connection"

NOT_THE_MASTER = ("READONLY", "NOREPLICAS", "MISCONF", "MASTERDOWN", "LOADING")
"""Errors of a server that is not, or not yet, a master that can write. The client connects anew:
Sentinel, or a name in the DNS, may lead to another server by now."""

REFUSED = (
    *("NOAUTH", "WRONGPASS", "NOPERM", "ERR AUTH", "ERR invalid password", "unknown command"),
    *("ACL failure in script", "can't run this command", "can't access at least one"),
    *("DB index is out of range", "WRONGTYPE", "DENIED"),
)
"""Parts of errors that do not heal by waiting: a wrong password, a missing right, a key that holds
something else than a lock, protected mode."""

CHANGES = (Granted, Done)
"""Answers that report something written."""

ACKNOWLEDGED_WITHIN = 0.5
"""How long replicas may take to acknowledge it."""

INCLUDE = "-- include: "

SCRIPTS = (
    *("acquire", "share", "release", "extend", "inspect"),
    *("vote", "vote_shared", "unvote", "raise", "repair"),
    *("getset_acquire", "getset_extend", "getset_release"),
)
"""The files in the folder `scripts`. Each begins with its keys, its arguments and its result."""


@dataclass(slots=True, eq=False)
class Exchange:
    """Commands that are sent together, and how to read their replies: as answers, or as the next
    exchange."""

    commands: Sequence[bytes]
    read: "Reading"
    loads: bool = False
    """Whether it loads the scripts: if one is missing then, loading it again would not help."""
    round: FanOut = field(init=False)
    """The round that waits for the answers. Set when it is sent."""

    @property
    def is_release(self) -> bool:
        """Releases are sent also when their caller has stopped waiting."""
        return type(self.round.requests[0]) is Release


Reading: TypeAlias = Callable[[list[Reply]], Answers | Exchange]
"""What replies mean: answers, or what to send next."""


class Script(NamedTuple):
    """A script and the name under which the server keeps it."""

    source: bytes
    sha: bytes


@cache
def script(name: str) -> Script:
    """Read a script, with what it includes put in its place."""
    source = "\n".join(_lines(f"{name}.lua")).encode()
    return Script(source, sha1(source, usedforsecurity=False).hexdigest().encode())


def _lines(file: str) -> Iterator[str]:
    text = files("holdfast.engines.redis").joinpath("scripts", file).read_text("utf-8")
    for line in text.splitlines():
        if line.startswith(INCLUDE):
            for shared in line.removeprefix(INCLUDE).split(", "):
                yield from _lines(shared)
        else:
            yield line


def word(text: bytes) -> bytes:
    """One argument of a command."""
    return b"$%d\r\n%b\r\n" % (len(text), text)


def command(*words: bytes) -> bytes:
    """A whole command."""
    return b"*%d\r\n" % len(words) + b"".join(map(word, words))


def milliseconds(seconds: float) -> bytes:
    """Rounded up, so that a lease lasts at least as long there as for its holder."""
    return b"%d" % ceil(seconds * 1000)


def call(name: str, keys: Sequence[bytes], *words: bytes, more: int = 0) -> bytes:
    """A call of a script; `more` arguments are to be appended to it."""
    count = 3 + len(keys) + len(words) + more
    calling = (b"EVALSHA", script(name).sha, b"%d" % len(keys), *keys, *words)
    return b"*%d\r\n" % count + b"".join(map(word, calling))


def conclude(exchange: Exchange, replies: list[Reply]) -> Answers | Exchange:
    """What the replies to an exchange mean: answers, or what to send next."""
    for reply in replies:
        if type(reply) is not int and _is_missing(reply) and not exchange.loads:
            return _with_scripts(exchange, replies)
    return exchange.read(replies)


def confirmed(read: Reading, replicas: int) -> Reading:
    """Count only what enough replicas have acknowledged. WAIT is about the last write of its
    connection, so it is sent on that of the write: after a failover, another server would confirm
    what it has not received."""
    if not replicas:
        return read

    def read_and_wait(replies: list[Reply]) -> Answers | Exchange:
        answers = read(replies)
        if isinstance(answers, Exchange) or not any(type(each) in CHANGES for each in answers):
            return answers

        def confirm(acknowledged: list[Reply]) -> Answers:
            [count] = acknowledged
            if type(count) is int and count >= replicas:
                return answers
            text = f"{count} of {replicas} replicas acknowledged it"
            unconfirmed = failed(count if isinstance(count, Exception) else text)
            return [unconfirmed if type(each) in CHANGES else each for each in answers]

        waiting = command(b"WAIT", b"%d" % replicas, milliseconds(ACKNOWLEDGED_WITHIN))
        return Exchange((waiting,), confirm)

    return read_and_wait


def load_scripts() -> tuple[bytes, ...]:
    """The commands that load all scripts."""
    return tuple(command(b"SCRIPT", b"LOAD", each.source) for each in map(script, SCRIPTS))


def failed(why: object, heals_in: float | None = None) -> Failed:
    """The answer for a reply that is an error. The connection puts its node's name into it."""
    return Failed.at("redis", _without_arguments(str(why)), heals_in)


def _without_arguments(text: str) -> str:
    """An error may repeat the command that it is about, with the password in it."""
    return text.partition(", with args beginning with")[0]


def _is_missing(reply: Reply) -> bool:
    """Whether a script was not loaded."""
    return isinstance(reply, Exception) and str(reply).startswith("NOSCRIPT")


def _with_scripts(exchange: Exchange, replies: list[Reply]) -> Exchange:
    """Load all scripts, and send again what failed because they were missing."""
    loading = load_scripts()
    again = [index for index, reply in enumerate(replies) if _is_missing(reply)]

    def complete(more: list[Reply]) -> Answers | Exchange:
        refusals = [reply for reply in more[: len(loading)] if isinstance(reply, Exception)]
        for index, reply in zip(again, more[len(loading) :], strict=True):
            replies[index] = refusals[0] if refusals else reply
        return exchange.read(replies)

    return Exchange((*loading, *(exchange.commands[i] for i in again)), complete, loads=True)


def explain(error: BaseException) -> str:
    """The text for an error of a connection."""
    text = _without_arguments(str(error))
    if not text:
        text = "timed out" if isinstance(error, TimeoutError) else repr(error)
    if text.startswith("DENIED"):
        text = text.partition(". ")[0]  # it goes on about all ways of ending protected mode
    return f"{text}{hint_for_tls(text, 'redis')}"


def heals_in(error: object) -> float | None:
    """When an error heals by itself: never (infinity), or unknown (None)."""
    if isinstance(error, (AuthenticationError, NoPermissionError, ssl.SSLCertVerificationError)):
        return inf
    text = str(error)
    return inf if any(each in text for each in REFUSED) else None
