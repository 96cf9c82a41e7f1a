"""Keeping what one has, and giving it back."""

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

from holdfast.core.messages import DONE, NOT_YOURS, Answer, Extend, Release
from holdfast.engines.etcd import phrases
from holdfast.engines.etcd.books import Books, Stake
from holdfast.engines.etcd.phrases import Call, KeepAlives
from holdfast.engines.etcd.replies import NO_SUCH_LEASE, Refused, accepted
from holdfast.engines.etcd.spares import NEVER
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
        ttl = ceil(request.ttl)
        found = accepted((yield phrases.find(stake.place))).kvs
        if not found or found[0].create_revision != request.fence:
            return NOT_YOURS
        old = found[0].lease
        life = accepted((yield phrases.time_to_live(old)))
        if ttl <= life.TTL:  # it is rounded down
            return DONE
        [alive] = yield KeepAlives([old])  # so that it does not end while the key is moved
        if alive <= 0:
            return NOT_YOURS
        if ttl <= alive:  # never on a shorter one: another thread may just have counted on this one
            stake.granted_at = NEVER  # who has written to the key may be about to revoke its lease
            stake.hold(old, alive, found[0].mod_revision)
            return DONE
        lease = stake.new_lease()
        accepted((yield phrases.grant(lease, ttl)))
        stake.ttl = 0  # until we know which of them the key hangs on
        attach = phrases.attach(stake.place, found[0].value, found[0].mod_revision, lease)
        reply = accepted((yield attach))
        if not reply.succeeded:  # it is gone, or another thread was faster
            yield from self._drop(stake, lease)
            return (yield from self._change(request, stake))
        stake.hold(lease, ttl, reply.header.revision)
        yield from self._drop(stake, old)
        return DONE

    def _drop(self, stake: Stake, lease: int) -> "Talk[None]":
        """Give back a lease on which nothing hangs."""
        yield phrases.revoke(lease)
        stake.leases = tuple(each for each in stake.leases if each != lease)

    def release(self, requests: Sequence[Release]) -> "Talk[Sequence[Answer]]":
        """Give back all that these holders have, all together."""
        stakes = [self._books.close_account(each.holder) for each in requests]
        answers: Sequence[Answer] = ()
        try:
            if len(requests) == 1 and (yield from self._keep_lease(stakes[0])):
                answers = (DONE,)
            else:
                answers = yield from self._end_leases(requests, stakes)
        finally:
            if not answers:
                for request, stake in zip(requests, stakes, strict=True):
                    if stake is not None:
                        self._books.farewell_unheard(request.holder, stake)
        return answers

    def _keep_lease(self, stake: Stake | None) -> "Talk[bool]":
        """Give back the key alone, and have its lease as a spare; False if that cannot be."""
        spares = self._books.spares
        if stake is None or not stake.lease or not spares.wants(stake.ttl, stake.granted_at):
            return False
        reply = accepted((yield phrases.part(stake.place, stake.attached)))
        if reply.succeeded:
            spares.keep(stake.lease, stake.place, stake.ttl, stake.granted_at)
        return bool(reply.succeeded)

    def _end_leases(
        self, requests: Sequence[Release], stakes: Sequence[Stake | None]
    ) -> "Talk[Sequence[Answer]]":
        calls: list[Call] = []
        ours: list[tuple[int, int]] = []
        for request, stake in zip(requests, stakes, strict=True):
            began = len(calls)
            if stake is not None:
                calls += self._farewell(request.holder, stake)
            ours.append((began, len(calls)))
        heard = yield calls
        answers: list[Answer] = []
        for stake, (began, end) in zip(stakes, ours, strict=True):
            answers.append(_released(stake, heard[began:end]))
            if stake is not None and stake.doubtful and stake.session is not None:
                self._books.retire(stake.session)  # a place that it asked for may still come
        return answers

    def _farewell(self, holder: str, stake: Stake) -> list[Call]:
        """Revoke each lease; leave the queue."""
        self._vigil.end(holder)
        calls = [phrases.revoke(lease) for lease in stake.leases]
        if stake.session is not None:
            calls.append(phrases.leave(stake.place))
        return calls


def _released(stake: Stake | None, replies: list[Any]) -> Answer:
    """Whether there was a lease to give back."""
    if stake is None or not stake.lease:
        return NOT_YOURS
    reply = replies[stake.leases.index(stake.lease)]
    if isinstance(reply, Refused):
        if reply.code is not NO_SUCH_LEASE:
            accepted(reply)
        # If an earlier farewell was not answered, it may have been carried out all the same.
        return DONE if stake.unheard else NOT_YOURS
    return DONE
