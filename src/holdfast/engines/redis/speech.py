"""What holdfast's requests are in the words of Redis, and what the replies mean. Pure.

A call is made of a head, which is kept for each lock, and of the holder id, which comes last.
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from math import ceil, inf
from typing import cast

from holdfast.core.messages import (
    DONE,
    MISSING,
    NOT_YOURS,
    OFFER,
    Acquire,
    Answer,
    Break,
    Extend,
    Failed,
    Granted,
    Held,
    Inspect,
    List,
    Raise,
    Read,
    Release,
    Repair,
    ToNode,
    Write,
)
from holdfast.core.records import Label
from holdfast.engines.redis.cells import cell_phrase
from holdfast.engines.redis.keys import keys_of
from holdfast.engines.redis.looking import Looking
from holdfast.engines.redis.phrases import (
    Answers,
    Head,
    Kind,
    Phrase,
    Reply,
    call,
    command,
    failed,
    word,
)

READY = 0.01
"""For how long a waiter that has just asked, and is the next, is handed the lock without having to
confirm. One that is stopped meanwhile has it for a ttl, like any other holder that is stopped."""

LEASES_IN_A_CALL = 200
"""More would keep the server from its other clients for too long."""


_GIVEN_BACK: tuple[bytes, Answers] = (b":1\r\n", (DONE,))
"""The usual reply to a release, and what it means."""


_phrase = partial(tuple.__new__, Phrase)
"""As `Phrase` itself, but without a call of a function in Python."""


class Speech:
    """How one client speaks of its locks."""

    def __init__(
        self, *, quorum: bool, keep: float, channel: str, scattered: bool = False, replicas: int = 0
    ) -> None:
        self._quorum = quorum
        self._keep = keep
        self._channel = channel.encode()
        self._scattered = scattered
        self._keys_of = partial(keys_of, in_cluster=scattered)
        self._looking = Looking(in_cluster=scattered)
        self.replicas = replicas
        self.hands_over = not replicas
        """Whether a waiter may hold the lock by word of a release, which waits for no replica."""
        self._offer, self._ready = _milliseconds(OFFER), _milliseconds(READY)
        self._codes: dict[int, Answer] = {
            1: DONE,
            0: NOT_YOURS,
            -1: MISSING if quorum else NOT_YOURS,
        }
        self._code = self._codes.__getitem__
        self._acquire_head = lru_cache(1024)(self._make_acquire_head)
        self._release_head = lru_cache(1024)(self._make_release_head)
        self.listening = False
        """Whether wake-ups on our channel reach us, so that it makes sense to queue."""

    def phrase(self, requests: Sequence[ToNode]) -> Phrase:
        """Put requests, all of one kind, into words."""
        first = requests[0]
        if type(first) is Acquire:
            return self._acquire(first)
        if type(first) is Release:
            if len(requests) == 1:
                head = self._release_head(first.key, first.wake)
                holder = first.holder.encode()
                words = b"$%d\r\n%b\r\n" % (len(holder), holder)
                text = (head.text + words,)
                return _phrase((text, self._read, False, self._code, head, words, *_GIVEN_BACK))
            return Phrase(tuple(map(self._release, cast(Sequence[Release], requests))), self._read)
        if type(first) is Extend:
            return self._extend(cast(Sequence[Extend], requests))
        if type(first) is Repair:
            return Phrase(tuple(map(self._repair, cast(Sequence[Repair], requests))), self._read)
        if type(first) is Raise:
            return self._raise(first)
        if type(first) is Break:
            return Phrase((self._release_head(first.key, True).text + word(b""),), self._read)
        if type(first) is Read or type(first) is Write:
            return cell_phrase(first, self.replicas, in_cluster=self._scattered)
        return self._looking.phrase(cast(Inspect | List, first))

    def command(self, request: Acquire | Release) -> bytes:
        """The usual requests to a single server are one command each."""
        if isinstance(request, Acquire):
            queue = request.queue and self.listening
            head = self._acquire_head(request.key, request.ttl, queue)
            holder = request.holder.encode()
            if queue and self.hands_over:
                return head.text + _two_words(holder, b"%d" % request.tries)
            return head.text + word(holder)
        holder = request.holder.encode()
        text = self._release_head(request.key, request.wake).text
        return b"%b$%d\r\n%b\r\n" % (text, len(holder), holder)

    def read(self, request: Acquire | Release, reply: Reply) -> Answer | None:
        """What the reply to such a command means; None if it is an error."""
        if type(reply) is int:
            return Granted(reply) if type(request) is Acquire else self._codes[reply]
        if type(reply) is list and type(request) is Acquire:
            return _read_held(reply, queued=request.queue and self.listening)
        return None

    def _acquire(self, request: Acquire) -> Phrase:
        queue = request.queue and self.listening
        head, holder = self._acquire_head(request.key, request.ttl, queue), request.holder.encode()
        read = _read_queued if queue else _read_unqueued
        if self._quorum:
            proposed = b"%d" % request.proposed
            words = b"$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(proposed), proposed, len(holder), holder)
            usual, usually = b":%b\r\n" % proposed, (Granted(request.proposed),)
            text = (head.text + words,)
            return _phrase((text, read, False, Granted, head, words, usual, usually))
        if queue and self.hands_over:
            words = _two_words(holder, b"%d" % request.tries)
        else:
            words = word(holder)
        phrase = Phrase((head.text + words,), read, False, Granted, head, words)
        return self._replicated(phrase) if self.replicas else phrase

    def _make_acquire_head(self, key: str, ttl: float, queue: bool) -> Head:
        keys, lasting = self._keys_of(key), (_milliseconds(ttl), _milliseconds(ttl + self._keep))
        if self._quorum and queue:
            return _head("vote", keys, (*lasting, self._channel), 2, joint="votes")
        if self._quorum:
            return _head("vote", (keys.lock, keys.fence), lasting, 2, joint="votes")
        channel = self._channel if queue else b""
        own = 2 if queue and self.hands_over else 1
        return _head("acquire", keys, (*lasting, self._offer, self._ready, channel), own)

    def _release(self, request: Release) -> bytes:
        head = self._release_head(request.key, request.wake)
        return head.text + word(request.holder.encode())

    def _make_release_head(self, key: str, wake: bool) -> Head:
        keys = self._keys_of(key)
        if self._quorum:
            waking = b"%b %b" % (self._offer if wake else b"", self._channel)
            return _head("unvote", (keys.lock, keys.queue), (waking,), 1, joint="unvotes")
        keep = _milliseconds(self._keep)
        return _head("release", keys, (keep, self._offer, self._ready, self._channel), 1)

    def _extend(self, requests: Sequence[Extend]) -> Phrase:
        size = 1 if self._scattered else LEASES_IN_A_CALL
        batches = [requests[at : at + size] for at in range(0, len(requests), size)]

        def read(replies: list[Reply]) -> Answers:
            answers: list[Answer] = []
            for batch, reply in zip(batches, replies, strict=True):
                if isinstance(reply, list):
                    answers += self._read(reply)
                else:
                    answers += [failed(reply)] * len(batch)
            return answers

        phrase = Phrase(tuple(map(self._extension, batches)), read)
        return self._replicated(phrase) if self.replicas else phrase

    def _extension(self, requests: Sequence[Extend]) -> bytes:
        keys: list[bytes] = []
        words: list[bytes] = []
        for request in requests:
            keys += self._keys_of(request.key)[:2]
            words += (_milliseconds(request.ttl), request.holder.encode())
        return call("extend", keys, _milliseconds(self._keep), *words)

    def _raise(self, request: Raise) -> Phrase:
        fence, holder = b"%d" % request.fence, request.holder.encode()
        keys = self._keys_of(request.key)[:2]
        raising = call("raise", keys, fence, _milliseconds(self._keep), holder)

        def read(replies: list[Reply]) -> Answers:
            return [Granted(request.fence)] if replies == [1] else self._read(replies)

        return Phrase((raising,), read)

    def _repair(self, request: Repair) -> bytes:
        lasting = (_milliseconds(request.ttl), _milliseconds(request.ttl + self._keep))
        fence, holder = b"%d" % request.fence, request.holder.encode()
        return call("repair", self._keys_of(request.key)[:2], *lasting, fence, holder)

    def _read(self, replies: list[Reply]) -> Answers:
        codes = self._codes
        return [codes[reply] if type(reply) is int else failed(reply) for reply in replies]

    def _replicated(self, phrase: Phrase) -> Phrase:
        """Count only what enough replicas have acknowledged."""
        wanted = self.replicas
        waiting = command(b"WAIT", b"%d" % wanted, _milliseconds(OFFER))

        def read(replies: list[Reply]) -> Answers | Phrase:
            acknowledged = replies[-1]
            answers = cast(Answers, phrase.conclude(replies[:-1]))
            if isinstance(acknowledged, int) and acknowledged >= wanted:
                return answers
            lacking = failed(f"{acknowledged} of {wanted} replicas acknowledged it")
            return [lacking if type(a) is Granted or a is DONE else a for a in answers]

        return Phrase((*phrase.commands, waiting), read)


def _head(
    script: str, keys: Sequence[bytes], words: tuple[bytes, ...], own: int, joint: str = ""
) -> Head:
    """Say this about a lock, with so many words to be appended; `joint` says it about several."""
    text = call(script, keys, *words, more=own)
    if not joint:
        return Head(text)
    return Head(text, b"".join(map(word, keys)), _kind(joint, len(keys), words, own))


_kind = lru_cache(64)(Kind)
"""One of each, so that they are told from each other by what they are."""


def _two_words(first: bytes, second: bytes) -> bytes:
    """In one go, which takes half as long."""
    return b"$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(first), first, len(second), second)


def _milliseconds(seconds: float) -> bytes:
    """Rounded up, so that a lease lasts at least as long there as its holder believes."""
    return b"%d" % ceil(seconds * 1000)


def _read_queued(replies: list[Reply]) -> Answers:
    reply = replies[0]
    return [Granted(reply) if type(reply) is int else _read_held(reply, queued=True)]


def _read_unqueued(replies: list[Reply]) -> Answers:
    reply = replies[0]
    return [Granted(reply) if type(reply) is int else _read_held(reply, queued=False)]


def _read_held(reply: Reply, *, queued: bool) -> Held | Failed:
    if type(reply) is not list:
        return failed(reply)
    left, owner = reply
    holder = owner.decode(errors="replace")
    # A lock that some other program has taken is given back without waking anybody.
    wakes = queued and Label.of(holder) is not None
    return Held(left / 1000 if left >= 0 else inf, wakes, holder)
