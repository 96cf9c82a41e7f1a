"""The Redis protocol, as far as holdfast speaks it. Pure: bytes out, replies in.

A `Phrase` is one or more commands that go out together. When each has its reply, either the answers
are known, or there is something more to say: the next part of a longer talk, or the same again when
a script was not loaded yet. It keeps nothing in mind, so it can be said to several servers at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

from holdfast.core.messages import Answer, Failed, ToNode
from holdfast.engines.redis.scripts import script, scripts

Reply: TypeAlias = Any
"""What a parser of the protocol makes of a reply; an error is an exception, given, not raised."""

Answers: TypeAlias = Sequence[Answer]


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """Calls that differ in nothing but their locks: several of them can be made in one, which costs
    the server a third less."""

    script: str
    """About several locks."""
    keys: int
    """How many each has."""
    words: tuple[bytes, ...]
    """What they have in common."""
    own: int
    """How many words each has of its own."""

    def together(self, calls: "Sequence[Call]") -> bytes:
        """All of them in one. Gives a list of what each would give."""
        keys = len(calls) * self.keys
        count = 3 + keys + len(self.words) + len(calls) * self.own
        head = (b"EVALSHA", script(self.script).sha, b"%d" % keys)
        return b"".join(
            (
                b"*%d\r\n" % count,
                *map(word, head),
                *(each.keys for each in calls),
                *map(word, self.words),
                *(each.words for each in calls),
            )
        )


class Call(NamedTuple):
    """A call of a script about one lock, as words that are put together already."""

    kind: Kind
    keys: bytes
    words: bytes
    """Those of its own."""


class Head(NamedTuple):
    """What is said of one lock whoever wants it: all but the last words."""

    text: bytes
    keys: bytes = b""
    kind: Kind | None = None
    """These two for a call that can be made together with others."""


class Phrase(NamedTuple):
    """Commands that go out together, and what their replies come to: answers, or more to say."""

    commands: tuple[bytes, ...]
    conclude: "Callable[[list[Reply]], Answers | Phrase]"
    loads: bool = False
    """Whether it loads the scripts: if one is missing then, loading it again would not help."""
    number: Callable[[int], Answer] | None = None
    """For a single command: what it means that its reply is a number. That is the usual case, so it
    is told without ado; `conclude` would come to the same."""
    head: Head | None = None
    words: bytes = b""
    """For a single command: what it is made of."""
    usual: bytes = b"?"
    """For a single command: the reply that is to be expected, as it comes. It need not be parsed to
    be known. (No reply begins with a question mark.)"""
    usually: Answers = ()
    """And what that means."""

    @property
    def call(self) -> Call | None:
        """What it is, if it can be made together with others."""
        head = self.head
        return None if not head or not head.kind else Call(head.kind, head.keys, self.words)


class Speaker(Protocol):
    """How a client speaks of its locks."""

    listening: bool
    """Whether wake-ups on our channel reach us, so that it makes sense to queue."""

    def phrase(self, requests: Sequence[ToNode]) -> Phrase:
        """Put requests, all of one kind, into words."""
        ...


def word(text: bytes) -> bytes:
    """One word of a command."""
    return b"$%d\r\n%b\r\n" % (len(text), text)


def command(*words: bytes) -> bytes:
    """A whole command."""
    return b"*%d\r\n" % len(words) + b"".join(map(word, words))


def call(name: str, keys: Sequence[bytes], *words: bytes, more: int = 0) -> bytes:
    """A call of a script; `more` words are to be appended to it."""
    count = 3 + len(keys) + len(words) + more
    spoken = (b"EVALSHA", script(name).sha, b"%d" % len(keys), *keys, *words)
    return b"*%d\r\n" % count + b"".join(map(word, spoken))


def conclude(phrase: Phrase, replies: list[Reply]) -> Answers | Phrase:
    """What the replies to a phrase come to."""
    for reply in replies:
        if type(reply) is not int and _is_missing(reply) and not phrase.loads:
            return _with_scripts(phrase, replies)
    return phrase.conclude(replies)


def _is_missing(reply: Reply) -> bool:
    """Whether a script was not there."""
    return isinstance(reply, Exception) and str(reply).startswith("NOSCRIPT")


def load_scripts() -> tuple[bytes, ...]:
    """The commands that load all scripts."""
    return tuple(command(b"SCRIPT", b"LOAD", each.source) for each in scripts())


def _with_scripts(phrase: Phrase, replies: list[Reply]) -> Phrase:
    """Load all scripts, and say again what could not be carried out for want of them."""
    loading = load_scripts()
    # A WAIT speaks of what was said before it, so it is said again behind that.
    unheard = [
        i
        for i, (said, reply) in enumerate(zip(phrase.commands, replies, strict=True))
        if _is_missing(reply) or said.startswith(_WAIT)
    ]

    def complete(more: list[Reply]) -> Answers | Phrase:
        refusals = [reply for reply in more[: len(loading)] if isinstance(reply, Exception)]
        for index, reply in zip(unheard, more[len(loading) :], strict=True):
            replies[index] = refusals[0] if refusals else reply
        return phrase.conclude(replies)

    return Phrase((*loading, *(phrase.commands[i] for i in unheard)), complete, loads=True)


_WAIT = b"*3\r\n$4\r\nWAIT\r\n"


def failed(why: object) -> Failed:
    """The answer for a reply that is an error."""
    return Failed.at("redis", str(why))
