"""Which master of a Redis Cluster to ask. Pure: it yields errands, and is sent what they came to.

1. A lock and all that belongs to it lie in one slot. The master that has the slot is asked.
2. Who has which slots is asked of any node, before the first request, and again after whatever
   shows that it may have changed: a failure, or `MOVED`.
3. `MOVED` and `ASK` say where to ask instead; `TRYAGAIN`, to do so a moment later: while a slot
   moves, some keys of a lock may be here and some there.
4. A master that cannot be asked costs the locks of the others nothing: all are asked at once.
5. A release goes at once to where the slot was last, behind what else was said there, for it may
   have to undo an acquire that is not answered yet.
"""

from bisect import bisect_right
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias, TypeVar, cast

from redis.crc import key_slot

from holdfast.core.fanout import Pause
from holdfast.core.messages import (
    Answer,
    Done,
    Failed,
    Inspect,
    List,
    Listing,
    Release,
    Request,
    Write,
)
from holdfast.core.ports import Clock
from holdfast.engines.redis.addresses import Place
from holdfast.engines.redis.keys import keys_of

MOST_HOPS = 8
"""How often a request is sent elsewhere; more can only be nodes that contradict each other."""

A_STEP = 5.0
"""How long a master may take for each step of a search for locks."""

A_MOMENT = 0.02
"""Until asking again is worth while."""

MOVING = ("MOVED ", "ASK ", "TRYAGAIN ")
"""How the errors begin that say that a slot moves, or has moved."""

T = TypeVar("T")


class Share(NamedTuple):
    """Slots, and the master that has them."""

    first: int
    last: int
    place: Place


@dataclass(slots=True)
class Slots(Inspect):
    """To any node of a cluster: who has which slots?"""


@dataclass(slots=True)
class Shares(Done):
    """Who has which slots."""

    shares: tuple[Share, ...]


class Errand(NamedTuple):
    """Requests for one node."""

    place: Place
    requests: Sequence[Request]
    until: float
    asking: bool = False
    """Whether it was another node that sent us there, for this once."""


class Turn(NamedTuple):
    """Where to ask, and how."""

    place: Place
    asking: bool = False


Talk: TypeAlias = Generator[Sequence[Errand] | Pause, Sequence[Sequence[Answer]], T]
"""Errands to be run all at once, each of which is to be answered."""


class Router:
    """Finds the way to each lock, for any number of threads or tasks."""

    def __init__(self, seeds: Sequence[Place], clock: Clock) -> None:
        self._seeds = tuple(seeds)
        self._clock = clock
        self._known = self._seeds
        """Whom to ask about the slots, the most promising first."""
        self._shares: tuple[Share, ...] = ()
        self._moved: dict[int, Place] = {}
        """What we were told in passing, since the shares were learnt."""
        self._sent_to: set[Place] = set()
        """Where we were sent, since then."""
        self._doubtful = True
        self._why: dict[str, str] = {}
        """What the nodes said when they were last asked about the slots in vain."""

    def knows(self, place: Place) -> bool:
        """Whether it is still a node of the cluster, as far as we know."""
        return place in self._known or place in self._sent_to

    def ask(self, requests: Sequence[Request], until: float) -> Talk[Sequence[Answer]]:
        """Answer each request, as the stores do."""
        first = requests[0]
        if self._doubtful and not (type(first) is Release and self._shares):
            yield from self._learn(until)
        if isinstance(first, List):
            return [(yield from self._list(first, until))]
        slots = [_slot(request) for request in requests]
        answers: list[Answer] = [self._unknown(slot) for slot in slots]
        turns = {i: Turn(place) for i, slot in enumerate(slots) if (place := self._owner(slot))}
        hops = 0
        while turns and hops < MOST_HOPS:
            errands = _errands(requests, turns, until)
            replies = yield [errand for errand, _ in errands]
            failures: list[tuple[int, Errand, str]] = []
            for (errand, indices), heard in zip(errands, replies, strict=True):
                for index, answer in zip(indices, heard, strict=True):
                    answers[index] = answer
                    if type(answer) is Failed:
                        failures.append((index, errand, answer.nodes[0][1]))
            if not failures:
                break
            elsewhere = yield from self._elsewhere(failures, slots, until)
            later = self._clock() + A_MOMENT
            if later >= until:
                break
            if any(turn == turns[index] for index, turn in elsewhere.items()):
                yield Pause(later)
            else:
                hops += 1
            turns = elsewhere
        return answers

    def _elsewhere(
        self, failures: Sequence[tuple[int, Errand, str]], slots: Sequence[int], until: float
    ) -> Talk[dict[int, Turn]]:
        """Where to ask again, for those of the failed requests for which there is such a place."""
        turns: dict[int, Turn] = {}
        unheard: dict[int, Place] = {}
        for index, errand, why in failures:
            turn = self._redirected(why, errand, slots[index])
            if turn is not None:
                turns[index] = turn
            elif type(errand.requests[0]) is not Write:  # which must not be done once more
                unheard[index] = errand.place
        self._doubtful = True
        if unheard:
            yield from self._learn(until)
            for index, place in unheard.items():
                owner = self._owner(slots[index])
                if owner is not None and owner != place:
                    turns[index] = Turn(owner)
        return turns

    def _list(self, request: List, until: float) -> Talk[Answer]:
        """Each master lists its own, in order; so the first of all are among the first of each."""
        while masters := list(dict.fromkeys(share.place for share in self._shares)):
            replies = yield [Errand(place, (request,), until) for place in masters]
            answers = [heard[0] for heard in replies]
            for at, place in enumerate(masters):
                while type(answer := answers[at]) is Listing and answer.cursor:
                    until = max(until, self._clock() + A_STEP)
                    asking = replace(request, cursor=answer.cursor)
                    [[answers[at]]] = yield [Errand(place, (asking,), until)]
            failures = [answer for answer in answers if type(answer) is Failed]
            if not failures:
                leases = [seen for answer in answers for seen in cast(Listing, answer).leases]
                leases.sort(key=lambda seen: seen.key)
                return Listing(tuple(leases[: request.limit]))
            self._doubtful = True
            moving = all(failed.nodes[0][1].startswith(MOVING) for failed in failures)
            later = self._clock() + A_MOMENT
            if not moving or later >= until:
                return Failed(tuple(node for failed in failures for node in failed.nodes))
            yield Pause(later)
            yield from self._learn(until)
        return self._unknown(0)

    def _learn(self, until: float) -> Talk[None]:
        """Ask one node after another who has which slots, until one tells. Each has half of the
        time that is left."""
        for place in self._known:
            now = self._clock()
            if now >= until:
                return
            [[answer]] = yield [Errand(place, (Slots(""),), now + (until - now) / 2)]
            if isinstance(answer, Shares) and answer.shares:
                self._take(place, answer.shares)
                return
            none = Failed.at(place.name, "it knows of no slots")
            self._why |= dict((answer if type(answer) is Failed else none).nodes)
            self._known = (*(other for other in self._known if other != place), place)

    def _take(self, told_by: Place, shares: tuple[Share, ...]) -> None:
        places = dict.fromkeys((told_by, *(share.place for share in shares), *self._seeds))
        self._known = tuple(places)
        self._shares = shares
        self._moved, self._sent_to = {}, set()
        self._doubtful = False
        self._why = {}

    def _owner(self, slot: int) -> Place | None:
        if slot in self._moved:
            return self._moved[slot]
        shares = self._shares
        at = bisect_right(shares, slot, key=lambda share: share.first) - 1
        return shares[at].place if at >= 0 and slot <= shares[at].last else None

    def _redirected(self, why: str, errand: Errand, slot: int) -> Turn | None:
        """Where an error sends us; None if it is no such error."""
        kind, _, rest = why.partition(" ")
        if kind == "TRYAGAIN":
            return Turn(errand.place, errand.asking)
        if kind not in ("MOVED", "ASK"):
            return None
        host, _, port = rest.partition(" ")[2].rpartition(":")
        place = Place(host if host not in ("", "?") else errand.place.host, int(port))
        self._sent_to.add(place)
        if kind == "ASK":
            return Turn(place, asking=True)
        self._moved[slot] = place
        return Turn(place)

    def _unknown(self, slot: int) -> Failed:
        """The answer when we know of nobody to ask."""
        if self._shares:
            return Failed.at("the cluster", f"no node has slot {slot}")
        return Failed(tuple(self._why.items()) or (("the cluster", "was not asked in time"),))


def read_shares(asked: Place, reply: Sequence[Sequence[object]]) -> tuple[Share, ...]:
    """What `CLUSTER SLOTS` says. A node that does not know its name is the one we asked."""
    shares = []
    for first, last, (host, port, *_), *_ in cast(Sequence[tuple[int, int, list[object]]], reply):
        name = host.decode() if isinstance(host, bytes) else ""
        place = Place(name if name not in ("", "?") else asked.host, cast(int, port))
        shares.append(Share(first, last, place))
    return tuple(sorted(shares))


def _slot(request: Request) -> int:
    """The slot of what it is about; a listing is about none."""
    return 0 if isinstance(request, List) else key_slot(keys_of(request.key, in_cluster=True).lock)


def _errands(
    requests: Sequence[Request], turns: dict[int, Turn], until: float
) -> list[tuple[Errand, list[int]]]:
    """What goes to one place goes together, in order."""
    groups: dict[Turn, list[int]] = {}
    for index, turn in turns.items():
        groups.setdefault(turn, []).append(index)
    return [
        (Errand(turn.place, [requests[i] for i in indices], until, turn.asking), indices)
        for turn, indices in groups.items()
    ]
