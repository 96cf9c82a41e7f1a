"""Keeping what one has, and giving it back."""

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

from holdfast.core.messages import DONE, NOT_YOURS, Answer, Extend, Release
from holdfast.engines.etcd import phrases
from holdfast.engines.etcd.books import Books, Stake
from holdfast.engines.etcd.keys import place_of
from holdfast.engines.etcd.phrases import HOLDING, Call, KeepAlives
from holdfast.engines.etcd.replies import NO_SUCH_LEASE, Refused, accepted
from holdfast.engines.etcd.vigil import Vigil

if TYPE_CHECKING:
    from holdfast.engines.etcd.speech import Talk


class Keeping:
    """What a client does with its leases."""

    def __init__(self, books: Books, vigil: Vigil) -> None:
        self._books, self._vigil = books, vigil

    def extend(self, requests: Sequence[Extend]) -> "Talk[Sequence[Answer]]":
        """Let leases live on: those of an unchanged ttl over one stream, the others one by one."""
        stakes = [self._books.stakes.get(each.holder) for each in requests]
        alike = {
            index: stake.lease
            for index, (request, stake) in enumerate(zip(requests, stakes, strict=True))
            if stake is not None and stake.lease and stake.ttl == ceil(request.ttl)
        }
        lives: set[int] = set()
        if alike:
            ttls = yield KeepAlives(list(alike.values()))
            lives = {lease for lease, ttl in zip(alike.values(), ttls, strict=True) if ttl > 0}
        answers: list[Answer] = []
        for index, (request, stake) in enumerate(zip(requests, stakes, strict=True)):
            lease = alike.get(index)
            if lease in lives:
                answers.append(DONE)
            elif stake is None or lease == stake.lease:
                answers.append(NOT_YOURS)
            else:  # it is of another ttl, or was hung on another lease meanwhile
                answers.append((yield from self._change(request, stake)))
        return answers

    def _change(self, request: Extend, stake: Stake) -> "Talk[Answer]":
        """Let the lease last for another ttl: hang the key on another lease, unless the one that it
        hangs on lasts as long anyway."""
        place = place_of(request.key, request.holder)
        ttl = ceil(request.ttl)
        found = accepted((yield phrases.find(place))).kvs
        if not found or found[0].create_revision != request.fence:
            return NOT_YOURS
        old = found[0].lease
        life = accepted((yield phrases.time_to_live(old)))
        if life.TTL <= 0:
            return NOT_YOURS
        if ttl <= life.TTL:  # it is rounded down
            return DONE
        lease = stake.new_lease()
        accepted((yield phrases.grant(lease, ttl)))
        reply = accepted((yield phrases.attach(place, HOLDING, request.fence, lease)))
        if not reply.succeeded:
            return NOT_YOURS
        stake.hold(lease, ttl, reply.header.revision)
        yield phrases.revoke(old)
        stake.leases = tuple(each for each in stake.leases if each != old)
        return DONE

    def release(self, requests: Sequence[Release]) -> "Talk[Sequence[Answer]]":
        """Give back all that these holders have, all together."""
        stakes = [self._books.stakes.get(each.holder) for each in requests]
        calls: list[Call] = []
        ours: list[tuple[int, int]] = []
        for request, stake in zip(requests, stakes, strict=True):
            began = len(calls)
            if stake is not None:
                calls += self._farewell(request, stake)
            ours.append((began, len(calls)))
        heard: list[Any] = []
        try:
            heard = yield calls
        finally:
            for stake in stakes:
                # A place that may be there: taken by a try that was not answered, or given up by a
                # farewell that was not.
                if stake is not None and stake.session and (stake.doubtful or not heard):
                    self._books.retire(stake.session)
        answers: list[Answer] = []
        for request, stake, (began, end) in zip(requests, stakes, ours, strict=True):
            answers.append(_released(stake, heard[began:end]))
            self._books.close_account(request.holder)
        return answers

    def _farewell(self, request: Release, stake: Stake) -> list[Call]:
        """Revoke each lease; leave the queue."""
        self._vigil.end(request.holder)
        calls = [phrases.revoke(lease) for lease in stake.leases]
        if stake.session is not None:
            calls.append(phrases.leave(place_of(request.key, request.holder)))
        return calls


def _released(stake: Stake | None, replies: list[Any]) -> Answer:
    """Whether there was a lease to give back."""
    if stake is None or not stake.lease:
        return NOT_YOURS
    reply = replies[stake.leases.index(stake.lease)]
    if isinstance(reply, Refused):
        if reply.code is not NO_SUCH_LEASE:
            accepted(reply)
        return NOT_YOURS
    return DONE
