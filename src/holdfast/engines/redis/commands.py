"""The commands for holdfast's requests, and what their replies mean. Pure.

A call of a script is made of a head, which is cached for each lock, and of the holder id, which
comes last.
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from math import inf
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
from holdfast.engines.redis.cells import cell_exchange
from holdfast.engines.redis.inspect import Inspector
from holdfast.engines.redis.keys import keys_of, shares_of
from holdfast.engines.redis.protocol import (
    Answers,
    Exchange,
    Reply,
    call,
    command,
    confirmed,
    failed,
    milliseconds,
    word,
)

LEASES_IN_A_CALL = 200
"""More would keep the server from its other clients for too long."""


class Commands:
    """The commands of one client about its locks."""

    def __init__(
        self,
        *,
        quorum: bool,
        keep: float,
        channel: str,
        in_cluster: bool = False,
        replicas: int = 0,
        offer: float = OFFER,
    ) -> None:
        self._quorum = quorum
        self._keep = keep
        self._channel = channel.encode()
        self._in_cluster = in_cluster
        self._replicas = replicas
        self._keys_of = partial(keys_of, in_cluster=in_cluster)
        self._inspector = Inspector(in_cluster=in_cluster)
        self._offer = milliseconds(offer)
        missing = MISSING if quorum else NOT_YOURS
        self._codes: dict[int, Answer] = {1: DONE, 0: NOT_YOURS, -1: missing}
        self._read_queued = confirmed(partial(_read_acquired, True), replicas)
        self._read_tried = confirmed(partial(_read_acquired, False), replicas)
        self._acquire_head = lru_cache(1024)(self._make_acquire_head)
        self._release_head = lru_cache(1024)(self._make_release_head)

    def exchange(self, requests: Sequence[ToNode], wakes: bool) -> Exchange:
        """What to send for requests that are all of one kind; `wakes`: whether a publication on our
        channel reaches us, so that it makes sense to join a queue."""
        first = requests[0]
        if type(first) is Acquire:
            queue = first.queue and wakes
            head = self._acquire_head(first.key, first.ttl, first.queue, wakes, first.shares)
            mine = first.holder.encode()
            proposed = word(b"%d" % first.proposed) if self._quorum else b""
            text = head + proposed + word(mine)
            return Exchange((text,), self._read_queued if queue else self._read_tried)
        if type(first) is Release:
            head_of = self._release_head
            commands = [
                head_of(r.key, r.wake, r.keeps_place, r.shares) + word(r.holder.encode())
                for r in cast(Sequence[Release], requests)
            ]
            return Exchange(commands, self._read_codes)
        if type(first) is Extend:
            return self._extend(cast(Sequence[Extend], requests))
        if type(first) is Repair:
            repairs = list(map(self._repair, cast(Sequence[Repair], requests)))
            return Exchange(repairs, self._read_codes)
        if type(first) is Raise:
            return self._raise(first)
        if type(first) is Break:
            holder = first.holder.encode(errors="surrogateescape")
            breaking = self._release_head(first.key, True, False, 1) + word(holder)
            return Exchange((breaking,), self._read_codes)
        if type(first) is Read or type(first) is Write:
            return cell_exchange(first, self._replicas, in_cluster=self._in_cluster)
        return self._inspector.exchange(cast(Inspect | List, first))

    def _make_acquire_head(
        self, key: str, ttl: float, queue: bool, wakes: bool, shares: int
    ) -> bytes:
        """All but the last arguments, which are the holder's own; kept for each lock."""
        keys, lasting = self._keys_of(key), (milliseconds(ttl), milliseconds(ttl + self._keep))
        channel = self._channel if queue and wakes else b""
        if self._quorum:
            vote = "vote" if shares == 1 else "vote_shared"
            if channel or (queue and shares == 1):  # readers wait also behind a writer that polls
                return call(vote, keys, *lasting, channel, more=2)
            return call(vote, (keys.lock, keys.fence), *lasting, more=2)
        words = (*lasting, self._offer, channel)
        if shares == 1:
            return call("acquire", keys, *words, more=1)
        return call("share", self._named_keys(key, shares), *words, b"%d" % shares, more=1)

    def _make_release_head(self, key: str, wake: bool, keeps_place: bool, shares: int) -> bytes:
        if self._quorum:
            keys, channel = self._keys_of(key), b"" if keeps_place else self._channel
            waking = b"%b %b" % (self._offer if wake else b"", channel)
            return call("unvote", (keys.lock, keys.queue), waking, more=1)
        words = (milliseconds(self._keep), self._offer, self._channel)
        return call("release", self._named_keys(key, shares), *words, more=1)

    def _extend(self, requests: Sequence[Extend]) -> Exchange:
        size = 1 if self._in_cluster else LEASES_IN_A_CALL
        batches = [requests[at : at + size] for at in range(0, len(requests), size)]

        def read(replies: list[Reply]) -> Answers:
            answers: list[Answer] = []
            for batch, reply in zip(batches, replies, strict=True):
                if isinstance(reply, list):
                    answers += self._read_codes(reply)
                else:
                    answers += [failed(reply)] * len(batch)
            return answers

        return Exchange(tuple(map(self._extension, batches)), confirmed(read, self._replicas))

    def _extension(self, requests: Sequence[Extend]) -> bytes:
        keys: list[bytes] = []
        words: list[bytes] = []
        for request in requests:
            of_one = self._named_keys(request.key, request.shares)
            keys += (*of_one[:2], *of_one[3:4])
            words += (milliseconds(request.ttl), request.holder.encode())
        return call("extend", keys, milliseconds(self._keep), *words)

    def _named_keys(self, key: str, shares: int) -> tuple[bytes, ...]:
        keys = self._keys_of(key)
        return (*keys, *keys.of_shares) if self._in_cluster and shares != 1 else keys

    def _raise(self, request: Raise) -> Exchange:
        fence, holder = b"%d" % request.fence, request.holder.encode()
        keys = self._keys_of(request.key)[:2]
        raising = call("raise", keys, fence, milliseconds(self._keep), holder)

        def read(replies: list[Reply]) -> Answers:
            return [Granted(request.fence)] if replies == [1] else self._read_codes(replies)

        return Exchange((raising,), read)

    def _repair(self, request: Repair) -> bytes:
        lasting = (milliseconds(request.ttl), milliseconds(request.ttl + self._keep))
        words = (b"%d" % request.fence, b"%d" % request.shares, request.holder.encode())
        return call("repair", self._keys_of(request.key)[:2], *lasting, *words)

    def _read_codes(self, replies: list[Reply]) -> Answers:
        codes = self._codes
        return [codes[reply] if type(reply) is int else failed(reply) for reply in replies]


def ping() -> Exchange:
    """Ask for nothing: it waits for the connection."""
    return Exchange((command(b"PING"),), lambda replies: [DONE])


def _read_acquired(queued: bool, replies: list[Reply]) -> Answers:
    reply = replies[0]
    if type(reply) is int:
        return [Granted(reply)]
    if type(reply) is not list:
        return [failed(reply)]
    left, owner = reply
    holder = owner.decode(errors="surrogateescape")
    # Another program releases its lock without waking the waiters.
    wakes = queued and (Label.of(holder) is not None or shares_of(holder) is not None)
    return [Held(left / 1000 if left >= 0 else inf, wakes, holder)]
