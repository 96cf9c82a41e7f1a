"""One lock over N independent nodes: whatever N//2 + 1 of them say.

1. The same request goes to all nodes at once; a node that has not answered in time said nothing.
2. Acquired: a quorum of grants, a fence that a quorum agrees on, and time left. Otherwise whatever
   this try (its `ballot`) was or may have been granted is given back at once, by silent nodes, too.
3. The fence is the greatest counter among the grants that were heard. It is *committed* when a
   quorum of nodes have said, while they were held by this holder, that their counter equals it. As
   a rule they say so in their grants, since all were proposed the same number; otherwise one more
   round raises those that lag behind. Two committed leases share a node where both committed, and
   the later one was granted more there; so it has the greater fence.
4. Extended: a quorum says "still yours". Only then are nodes that have forgotten the lease told
   again, which is no vote. A quorum of the contrary is a loss.
5. A node that the restart guard holds in quarantine has no vote.

The algorithms here yield polls, and pauses; what is heard is in the poll.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

from holdfast.core.attempt import attempt_id, undoing
from holdfast.core.fanout import AcquireRound, FanOut, Pause, ReleaseRound, Rounds, in_words
from holdfast.core.guard import RestartGuard, quarantine_of
from holdfast.core.messages import (
    DONE,
    NOT_YOURS,
    Acquire,
    Answer,
    Break,
    Done,
    Extend,
    Failed,
    Granted,
    Held,
    List,
    Listing,
    Missing,
    Raise,
    Release,
    Repair,
    Request,
    Seen,
)

SCATTER = 0.003
"""Over how many seconds those who were woken spread their tries, so as not to split the vote."""

FAREWELL = 0.5
"""How long to wait for a majority to confirm a release."""

UNSURE = 0.5
"""How long to wait if silent nodes leave it open whether anybody holds the lock."""


def token_of(grants: Collection[int]) -> int:
    """The fence, given the counters that were granted."""
    return max(grants)


def is_committed(counters: Iterable[int], token: int, quorum: int) -> bool:
    """Whether a quorum of nodes have reported exactly this fence."""
    return list(counters).count(token) >= quorum


@dataclass(slots=True)
class Quorum:
    """The nodes of one client, and how to ask them."""

    names: Sequence[str]
    guards: Sequence[RestartGuard]
    clock: Callable[[], float]
    wall_clock: Callable[[], float]
    uniform: Callable[[float, float], float]
    drift: Callable[[float], float]
    size: int = field(init=False)
    all_nodes: range = field(init=False)
    _extending: set[str] = field(init=False, default_factory=set)
    """The holders that are being extended, unless they have let go meanwhile."""

    def __post_init__(self) -> None:
        self.size = len(self.names) // 2 + 1
        self.all_nodes = range(len(self.names))

    def ask(self, requests: Sequence[Request], until: float) -> Rounds[Sequence[Answer]]:
        """Ask one thing, or several of a kind; gives an answer for each."""
        first = requests[0]
        if type(first) is Acquire:
            return self._acquire(first, until)
        if type(first) is Release:
            return self._release(requests, until)
        if type(first) is Extend:
            return self._extend(cast("Sequence[Extend]", requests), until)
        if type(first) is Break:
            return self._break(first, until)
        return self._look(first, until)

    def _acquire(self, request: Acquire, until: float) -> Rounds[Sequence[Answer]]:
        began = asked = self.clock()
        request_timeout = until - began
        if request.queue:
            yield Pause(began + self.uniform(0, min(SCATTER, request_timeout)))
            asked = self.clock()
        proposed = int(self.wall_clock() * 1_000_000)
        name = attempt_id(request.holder, request.tries)
        voters = self._voters(began)
        asking = Acquire(request.key, name, request.ttl, request.queue, proposed)
        vote = AcquireRound(asking, voters, asked + request_timeout, self.size, self.guards, began)
        if len(voters) < self.size:
            return (self._failed(vote, began),)
        yield vote
        grants = vote.grants()
        if len(grants) >= self.size:
            token = token_of(grants.values())
            agreed = is_committed(grants.values(), token, self.size)
            if not agreed:
                agreed = yield from self._raise(asking, grants, token, began, request_timeout)
            if agreed and self.clock() - began < request.ttl - self.drift(request.ttl):
                return (Granted(token, name),)
        now = self.clock()
        yield from self._release_attempt(
            request, vote, now + request_timeout, wake=len(grants) >= self.size
        )
        if now - began >= request.ttl - self.drift(request.ttl):
            why = f"the vote took {now - began:.3f} s, longer than the ttl allows"
            return (Failed(tuple((name, why) for name in self.names)),)
        return (self._refusal(vote, now - began),)

    def _raise(
        self,
        request: Acquire,
        grants: dict[int, int],
        token: int,
        began: float,
        request_timeout: float,
    ) -> Rounds[bool]:
        """Have the nodes that granted less raise their counters to the token."""
        behind = [node for node, fence in grants.items() if fence != token]
        level = len(grants) - len(behind)
        raising = Raise(request.key, request.holder, token)
        until = self.clock() + request_timeout
        vote = AcquireRound(raising, behind, until, self.size - level, self.guards, began)
        yield vote
        return is_committed({**grants, **vote.grants()}.values(), token, self.size)

    def _release_attempt(
        self, request: Acquire, vote: AcquireRound, until: float, *, wake: bool
    ) -> Rounds[None]:
        """Give back what was granted, or may have been. Those that refused keep our place."""
        doubtful = [node for node in vote.nodes if type(vote.said(node)) is not Held]
        if doubtful:
            release = Release(request.key, undoing(request.holder, request.tries), wake)
            yield ReleaseRound(release, doubtful, until, len(doubtful))

    def _refusal(self, vote: AcquireRound, took: float) -> Answer:
        """Why there was no lock, and when to try again."""
        total = len(self.names)
        held = [a[0] for a in vote.answers.values() if type(a[0]) is Held]
        granted = len(vote.grants())
        silent = total - len(held) - granted
        if silent > total - self.size or granted >= self.size:  # which then came too late
            return self._failed(vote, self.clock())
        owner, nodes = (
            Counter(answer.holder for answer in held).most_common(1)[0] if held else ("", 0)
        )
        if nodes + silent < self.size:
            # The vote was split. The rivals let go at once, too; the more of them, the longer the
            # draw by which one goes first.
            rivals = 1 + len({answer.holder for answer in held})
            return Held(self.uniform(0, 2 * rivals * max(took, 0.001)), wakes=False)
        ends = sorted(answer.remaining for answer in held if answer.holder == owner)
        last = ends[max(nodes - (total - self.size) - 1, 0)]
        remaining = last if nodes >= self.size else min(last, UNSURE)
        return Held(remaining, any(answer.wakes for answer in held), owner)

    def _release(self, requests: Sequence[Request], until: float) -> Rounds[Sequence[Answer]]:
        if self._extending:
            self._extending -= {each.holder for each in requests if isinstance(each, Release)}
        if len(requests) == 1:
            # A silent minority delays nobody, and nobody is in a hurry if a majority is slow.
            until = max(until, self.clock() + FAREWELL)
            farewell = ReleaseRound(requests[0], self.all_nodes, until, self.size)
            yield farewell
            return (DONE if farewell.done >= self.size else self._released(farewell, 0),)
        poll = FanOut(requests, self.all_nodes, until)
        yield poll
        return [self._released(poll, index) for index in range(len(requests))]

    def _released(self, poll: FanOut, index: int) -> Answer:
        # Another thread may hear of it, too, where it went out behind something else.
        heard = [type(answers[index]) for answers in list(poll.answers.values())]
        silent = len(self.names) - len(heard) + heard.count(Failed)
        if heard.count(Done) + silent < self.size:
            return NOT_YOURS
        if len(self.names) - silent >= self.size:
            return DONE  # whoever comes next finds a quorum of free nodes
        return self._failed(poll, self.clock(), index)

    def _extend(self, requests: Sequence[Extend], until: float) -> Rounds[Sequence[Answer]]:
        began = self.clock()
        poll = FanOut(requests, self.all_nodes, until)
        holders = {request.holder for request in requests}
        self._extending |= holders
        try:
            yield poll
            answers = [self._extended(poll, index, began) for index in range(len(requests))]
            for node in self.all_nodes:
                forgotten = [
                    Repair(request.key, request.holder, request.ttl, request.fence)
                    for index, request in enumerate(requests)
                    if answers[index] is DONE
                    and type(poll.said(node, index)) is Missing
                    and self._is_worth_repairing(request, began)
                ]
                if forgotten:
                    yield FanOut(forgotten, (node,), self.clock() + until - began)
        finally:
            self._extending -= holders
        return answers

    def _is_worth_repairing(self, request: Extend, began: float) -> bool:
        """Not what was released meanwhile, nor what has ended: nobody would give it back."""
        ends_at = began + request.ttl - self.drift(request.ttl)
        return request.holder in self._extending and self.clock() < ends_at

    def _extended(self, poll: FanOut, index: int, began: float) -> Answer:
        mine = others = 0
        for node, answers in poll.answers.items():
            said = type(answers[index])
            if said is Done:
                mine += self.guards[node].quarantined_until <= began
            elif said is not Failed:
                others += 1
        if mine >= self.size:
            return DONE
        return NOT_YOURS if others >= self.size else self._failed(poll, began, index)

    def _break(self, request: Break, until: float) -> Rounds[Sequence[Answer]]:
        poll = FanOut((request,), self.all_nodes, until)
        yield poll
        heard = [type(answers[0]) for answers in poll.answers.values()]
        if len(heard) - heard.count(Failed) < self.size:
            return (self._failed(poll, self.clock()),)
        return (DONE if Done in heard else NOT_YOURS,)

    def _look(self, request: Request, until: float) -> Rounds[Sequence[Answer]]:
        """The locks that a quorum of nodes ascribe to one holder."""
        while True:
            poll = FanOut((request,), self.all_nodes, until)
            yield poll
            heard = [a[0] for a in poll.answers.values()]
            listings = [answer.leases for answer in heard if type(answer) is Listing]
            if len(listings) < self.size:
                return (self._failed(poll, self.clock()),)
            if type(request) is not List:
                return (Listing(self._together(listings, "")),)
            # A node that had more to tell than it was asked for knows nothing of what lies beyond.
            full = [leases[-1].key for leases in listings if len(leases) >= request.limit]
            found = self._together(listings, min(full, default=""))
            if found or not full:
                return (Listing(found),)
            request = List(request.prefix, min(full), request.limit)

    def _together(self, listings: list[tuple[Seen, ...]], last: str) -> tuple[Seen, ...]:
        sightings: dict[tuple[str, str], list[Seen]] = {}
        for leases in listings:
            for seen in leases:
                if not last or seen.key <= last:
                    sightings.setdefault((seen.key, seen.holder), []).append(seen)
        return tuple(
            Seen(
                key,
                holder,
                self._fence([seen.fence for seen in found]),
                sorted((seen.remaining for seen in found), reverse=True)[self.size - 1],
                None,
            )
            for (key, holder), found in sorted(sightings.items(), key=lambda item: item[0])
            if len(found) >= self.size
        )

    def _fence(self, counters: list[int]) -> int:
        """The fence of a lock, from the counters beside it. One that was repaired, or came late,
        may have another counter: a rival's try may have raised it while the lock was not there."""
        fence, nodes = Counter(counters).most_common(1)[0]
        return fence if nodes >= self.size else max(counters)

    def _voters(self, at: float) -> Sequence[int]:
        if max(map(quarantine_of, self.guards)) <= at:
            return self.all_nodes
        return [n for n, each in enumerate(self.guards) if each.quarantined_until <= at]

    def _failed(self, poll: FanOut, now: float, index: int = 0) -> Failed:
        """What each node answered."""
        told = [
            self._told(poll.said(node, index), self.guards[node].quarantined_until - now)
            for node in self.all_nodes
        ]
        return Failed(tuple(zip(self.names, told, strict=True)))

    def _told(self, answer: Answer | None, quarantine: float) -> str:
        if quarantine > 0:
            return (
                f"restarted, and may have forgotten a lease that is still valid; it has no vote "
                f"for another {quarantine:.1f} s"
            )
        return in_words(answer)
