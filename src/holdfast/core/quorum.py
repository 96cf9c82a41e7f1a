"""One lock over N independent nodes: N//2 + 1 of them decide.

1. Each request goes to all nodes at once. A node that does not answer in time is silent.
2. Acquired: a quorum of grants, a fence that a quorum agrees on, and time left. Otherwise this
   attempt is released at once on all nodes that granted it or were silent.
3. The fence is the greatest counter among the grants that the client received. It is *committed*
   when a quorum of nodes have reported, while this attempt held their lock, that their counter
   equals it. Usually the grants do, since all nodes were proposed the same number; otherwise one
   more round raises the counters that are lower. Two committed leases share a node on which both
   committed, and the later one got a greater counter there; so it has the greater fence.
4. Extended: a quorum answers "still yours". Only then is the lease repaired on nodes that have lost
   it, which is no vote. A quorum of refusals is a loss.
5. A node in quarantine (see `restart_guard`) has no vote.
6. A vote may end without a winner: the contenders split it, or a majority granted it too late. A
   holder that tries only once votes again, after a random pause, until one of them has the lock,
   or for `VOTE_AGAIN_FOR` seconds.

The algorithms here yield fan-outs and sleeps. The store fills a fan-out with the answers.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, cast

from holdfast.core.effects import Sleep, Uniform
from holdfast.core.fanout import AcquireRound, FanOut, ReleaseRound, Rounds, describe
from holdfast.core.listings import look
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
    Missing,
    Raise,
    Release,
    Repair,
    Request,
    attempt_id,
    undoing,
)
from holdfast.core.restart_guard import RestartGuard

SCATTER = 0.003
"""Seconds over which waiters that were woken together spread their attempts."""

RELEASE_TIMEOUT = 0.5
"""How long to wait for a majority to confirm a release."""

UNSURE = 0.5
"""How long to wait if silent nodes leave it open whether the lock is held."""

VOTE_AGAIN_FOR = 3.0
"""For how long a holder that tries once votes again before it reports a split vote."""

SHORTEST_VOTE = 0.001
"""A vote counts as at least this long where the pause after it is computed."""

LONGEST_PAUSE = 0.5
"""The longest pause before the next vote, and the longest time that a node gets to answer it."""


def fence_of(grants: Collection[int]) -> int:
    """The fence, given the counters that were granted."""
    return max(grants)


def is_committed(counters: Iterable[int], fence: int, quorum: int) -> bool:
    """Whether a quorum of nodes have reported exactly this fence."""
    return list(counters).count(fence) >= quorum


class Vote(NamedTuple):
    """The outcome of one vote."""

    answer: Answer
    pause: float = 0.0
    """If there may be no winner: vote again within this many seconds, at random. 0: there is."""


@dataclass(slots=True)
class Quorum:
    """The nodes of one client, and how to ask them."""

    names: Sequence[str]
    guards: Sequence[RestartGuard]
    clock: Callable[[], float]
    wall_clock: Callable[[], float]
    uniform: Uniform
    drift: Callable[[float], float]
    size: int = field(init=False)
    all_nodes: range = field(init=False)
    _extending: set[str] = field(init=False, default_factory=set)
    """The holders that are being extended and have not been released meanwhile."""

    def __post_init__(self) -> None:
        self.size = len(self.names) // 2 + 1
        self.all_nodes = range(len(self.names))
        for guard in self.guards:
            guard.group = self.guards

    def ask(self, requests: Sequence[Request], until: float) -> Rounds[Sequence[Answer]]:
        """Answer one request, or several of one kind."""
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
        began = self.clock()
        request_timeout = until - began
        if request.queue:
            yield Sleep(began + self.uniform(0, min(SCATTER, request_timeout)))
        vote = yield from self._vote(request, request.tries, began, request_timeout)
        if request.once and vote.pause:
            vote = yield from self._vote_again(request, vote, began, request_timeout)
        return (vote.answer,)

    def _vote_again(
        self, request: Acquire, vote: Vote, began: float, request_timeout: float
    ) -> Rounds[Vote]:
        """Vote again until there is a winner, so that `Held` means that the lock is held. The lease
        counts from the first vote, so this ends well before the ttl does."""
        tries, seen = request.tries, ""
        until = began + min(VOTE_AGAIN_FOR, request.ttl / 3)
        while vote.pause and self.clock() < until:
            answer = vote.answer
            if type(answer) is Failed:
                request_timeout = min(2 * request_timeout, LONGEST_PAUSE)  # nodes were too slow
            # A rival releases its attempt at once and votes with the next one. What has not changed
            # after a pause is a lease, though some of its nodes are silent.
            holder = answer.holder if type(answer) is Held else ""
            if holder and holder == seen:
                return vote
            seen = holder
            longest = min(vote.pause * 2 ** (tries - request.tries), LONGEST_PAUSE)
            shortest = min(vote.pause, longest) / 2 if holder else 0.0
            yield Sleep(self.clock() + self.uniform(shortest, longest))
            tries += 1
            vote = yield from self._vote(request, tries, self.clock(), request_timeout)
        if vote.pause and type(vote.answer) is Held and not vote.answer.holder:
            why = f"free, but contenders split {tries - request.tries + 1} votes; try again"
            return Vote(Failed(tuple((node, why) for node in self.names)))
        return vote

    def _vote(
        self, request: Acquire, tries: int, began: float, request_timeout: float
    ) -> Rounds[Vote]:
        """Let all nodes vote once. The lease counts from `began`."""
        holder = attempt_id(request.holder, tries)
        proposed = int(self.wall_clock() * 1_000_000)
        voters = [n for n in self.all_nodes if self.guards[n].quarantined_until <= began]
        shares = request.shares
        asking = Acquire(request.key, holder, request.ttl, request.queue, proposed, shares=shares)
        until = self.clock() + request_timeout
        fan_out = AcquireRound(asking, voters, until, self.size, self.guards, began)
        if len(voters) < self.size:
            return Vote(self._failed(fan_out, began, asked=False))
        yield fan_out
        grants = fan_out.grants()
        if len(grants) >= self.size:
            fence = fence_of(grants.values())
            agreed = is_committed(grants.values(), fence, self.size)
            if not agreed:
                agreed = yield from self._raise(asking, grants, fence, began, request_timeout)
            if agreed and self.clock() - began < request.ttl - self.drift(request.ttl):
                return Vote(Granted(fence, holder))
        now = self.clock()
        name = undoing(request.holder, tries)
        yield from self._release_attempt(request.key, name, fan_out, now + request_timeout)
        if now - began >= request.ttl - self.drift(request.ttl):
            why = f"the vote took {now - began:.3f} s, longer than the ttl allows"
            return Vote(Failed(tuple((node, why) for node in self.names)))
        return self._refusal(fan_out, now - began)

    def _raise(
        self,
        request: Acquire,
        grants: dict[int, int],
        fence: int,
        began: float,
        request_timeout: float,
    ) -> Rounds[bool]:
        """Have the nodes with a lower counter raise it to the fence."""
        behind = [node for node, counter in grants.items() if counter != fence]
        level = len(grants) - len(behind)
        raising = Raise(request.key, request.holder, fence)
        until = self.clock() + request_timeout
        fan_out = AcquireRound(raising, behind, until, self.size - level, self.guards, began)
        yield fan_out
        return is_committed({**grants, **fan_out.grants()}.values(), fence, self.size)

    def _release_attempt(
        self, key: str, name: str, fan_out: AcquireRound, until: float
    ) -> Rounds[None]:
        """Release an attempt on all nodes that granted it, or may have. Nodes that refused it keep
        the place of the waiter."""
        doubtful = [node for node in fan_out.nodes if type(fan_out.answer_of(node)) is not Held]
        if doubtful:
            # If it may have been on a quorum of nodes, other clients may be waiting for its end.
            wake = len(doubtful) >= self.size
            release = Release(key, name, wake, keeps_place=True)
            yield ReleaseRound(release, doubtful, until, len(doubtful))

    def _refusal(self, fan_out: AcquireRound, took: float) -> Vote:
        """Why a vote was lost, and when to try again."""
        total = len(self.names)
        held = [a[0] for a in fan_out.answers.values() if type(a[0]) is Held]
        granted = len(fan_out.grants())
        silent = total - len(held) - granted
        if silent > total - self.size:
            return Vote(self._failed(fan_out, self.clock()))
        rivals = 1 + len({answer.holder for answer in held})
        pause = 2 * rivals * max(took, SHORTEST_VOTE)
        if granted >= self.size:  # some came only while they were being released
            return Vote(self._failed(fan_out, self.clock()), pause)
        owner, nodes = (
            Counter(answer.holder for answer in held).most_common(1)[0] if held else ("", 0)
        )
        if nodes + silent < self.size:  # a split vote: the rivals release theirs at once, too
            return Vote(Held(self.uniform(0, pause), wakes=False), pause)
        ends = sorted(answer.remaining for answer in held if answer.holder == owner)
        must_end = nodes - (total - self.size)  # on that many of its nodes, until a quorum is free
        remaining = ends[max(must_end, 1) - 1]
        wakes = any(answer.wakes for answer in held)
        if nodes >= self.size:
            return Vote(Held(remaining, wakes, owner))
        return Vote(Held(min(remaining, UNSURE), wakes, owner), pause)

    def _release(self, requests: Sequence[Request], until: float) -> Rounds[Sequence[Answer]]:
        if self._extending:
            self._extending -= {each.holder for each in requests if isinstance(each, Release)}
        if len(requests) == 1:
            until = max(until, self.clock() + RELEASE_TIMEOUT)
            one = ReleaseRound(requests[0], self.all_nodes, until, self.size)
            yield one
            return (DONE if one.done >= self.size else self._released(one, 0),)
        many = FanOut(requests, self.all_nodes, until)
        yield many
        return [self._released(many, index) for index in range(len(requests))]

    def _released(self, fan_out: FanOut, index: int) -> Answer:
        received = [type(answers[index]) for answers in fan_out.answers.values()]
        silent = len(self.names) - len(received) + received.count(Failed)
        if received.count(Done) + silent < self.size:
            return NOT_YOURS
        if len(self.names) - silent >= self.size:
            return DONE  # the next holder finds a quorum of free nodes
        return self._failed(fan_out, self.clock(), index)

    def _extend(self, requests: Sequence[Extend], until: float) -> Rounds[Sequence[Answer]]:
        began = self.clock()
        fan_out = FanOut(requests, self.all_nodes, until)
        holders = {request.holder for request in requests}
        self._extending |= holders
        try:
            yield fan_out
            answers = [self._extended(fan_out, index, began) for index in range(len(requests))]
            for node in self.all_nodes:
                repairs = [
                    Repair(request.key, request.holder, request.ttl, request.fence, request.shares)
                    for index, request in enumerate(requests)
                    if answers[index] is DONE
                    and type(fan_out.answer_of(node, index)) is Missing
                    and self._is_worth_repairing(request, began)
                ]
                if repairs:
                    yield FanOut(repairs, (node,), self.clock() + until - began)
        finally:
            self._extending -= holders
        return answers

    def _is_worth_repairing(self, request: Extend, began: float) -> bool:
        """Whether the lease is still held: after its release, a repair would outlive it."""
        ends_at = began + request.ttl - self.drift(request.ttl)
        return request.holder in self._extending and self.clock() < ends_at

    def _extended(self, fan_out: FanOut, index: int, began: float) -> Answer:
        mine = others = 0
        for node, answers in fan_out.answers.items():
            kind = type(answers[index])
            if kind is Done:
                mine += self.guards[node].quarantined_until <= began
            elif kind is not Failed:
                others += 1
        if mine >= self.size:
            return DONE
        return NOT_YOURS if others >= self.size else self._failed(fan_out, began, index)

    def _break(self, request: Break, until: float) -> Rounds[Sequence[Answer]]:
        fan_out = FanOut((request,), self.all_nodes, until)
        yield fan_out
        received = [type(answers[0]) for answers in fan_out.answers.values()]
        if len(received) - received.count(Failed) < self.size:
            return (self._failed(fan_out, self.clock()),)
        return (DONE if Done in received else NOT_YOURS,)

    def _look(self, request: Request, until: float) -> Rounds[Sequence[Answer]]:
        fan_out, found = yield from look(request, self.all_nodes, self.size, self.clock, until)
        return (found or self._failed(fan_out, self.clock()),)

    def _failed(self, fan_out: FanOut, now: float, index: int = 0, *, asked: bool = True) -> Failed:
        """What each node answered, and when a quorum will be able to."""
        nodes: list[tuple[str, str]] = []
        heals_in: list[float] = []
        for node, guard in enumerate(self.guards):
            answer = fan_out.answer_of(node, index)
            quarantine = guard.quarantined_until - now
            if quarantine > 0:
                heals_in.append(quarantine)
                nodes.append((self.names[node], self._describe_quarantine(guard, quarantine)))
                continue
            if type(answer) is Failed and answer.heals_in is not None:
                heals_in.append(answer.heals_in)
            elif not asked or (answer is not None and type(answer) is not Failed):
                heals_in.append(0.0)
            nodes.append((self.names[node], describe(answer) if asked else "not asked"))
        if heals_in.count(inf) > len(nodes) - self.size:
            return Failed(tuple(nodes), inf)
        known = sorted(each for each in heals_in if each < inf)
        first = known[self.size - 1] if len(known) >= self.size else 0.0
        return Failed(tuple(nodes), first or None)

    def _describe_quarantine(self, guard: RestartGuard, left: float) -> str:
        if left == inf:
            return self._describe_twins(guard)
        minute, second = divmod(int(self.wall_clock() + left), 60)
        ends = f"{minute // 60 % 24:02}:{minute % 60:02}:{second:02} UTC"
        return (
            "restarted and may have lost a lease that is still valid, so it has no vote until "
            f"{ends}, in {left:.1f} s (see the option restart_guard)"
        )

    def _describe_twins(self, guard: RestartGuard) -> str:
        runs = zip(self.guards, self.names, strict=True)
        twins = [name for other, name in runs if other.run == guard.run and other is not guard]
        if not guard.run or not twins:
            return "not asked, because two other addresses lead to one server"
        return (
            f"is the same server as {', '.join(twins)} (equal run ids); a server must not have two "
            "votes, so name it once"
        )
