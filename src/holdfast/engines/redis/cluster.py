"""A Redis Cluster: which master to ask. Pure: it yields rounds, whose answers it then reads.

1. A lock and all that belongs to it lie in one slot. The master that owns the slot is asked.
2. Any node is asked which master owns which slots: before the first request, and again after a
   failure or `MOVED`, or if a slot has no owner.
3. `MOVED` and `ASK` name the node to ask instead. `TRYAGAIN` asks for another try a moment later:
   while a slot moves, some keys of a lock may be here and some there.
4. An unreachable master does not delay the locks of the others: all are asked at once.
5. A release goes at once to where the slot was last, behind what else was sent there, for it may
   have to undo an acquire that is not answered yet. One without an answer is not repeated here: the
   core does that, and knows that "not yours" may be the effect of the first.
6. A waiter subscribes at the very master that owns the slot, because a master counts only its own
   subscribers.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

from redis.crc import key_slot

from holdfast.core.effects import Sleep
from holdfast.core.fanout import FanOut
from holdfast.core.messages import (
    Answer,
    Done,
    Failed,
    List,
    Listing,
    Release,
    Request,
    Write,
)
from holdfast.engines.redis.addresses import Address
from holdfast.engines.redis.connection import Connection
from holdfast.engines.redis.handshake import Handshake
from holdfast.engines.redis.keys import keys_of
from holdfast.engines.redis.nodes import Nodes, Rounds, Together
from holdfast.engines.redis.protocol import Answers, Exchange, Reply, command, failed
from holdfast.engines.urls import Endpoint

MOST_HOPS = 8
"""How often a request is sent elsewhere; more can only be nodes that contradict each other."""

A_MOMENT = 0.02
"""Until asking again is worthwhile."""

A_STEP = 5.0
"""How long a master may take for each step of a search for locks."""

MOVING = ("MOVED ", "ASK ", "TRYAGAIN ")
"""How the errors begin that report a slot that moves, or has moved."""


class SlotRange(NamedTuple):
    """Slots, and the master that owns them."""

    first: int
    last: int
    master: Endpoint


@dataclass(slots=True)
class SlotMap(Done):
    """The reply to `CLUSTER SLOTS`."""

    reply: Any


class Turn(NamedTuple):
    """Where to ask, and how."""

    endpoint: Endpoint
    asking: bool = False
    """Whether another node redirected this request there, by `ASK`."""


class NodeRound(FanOut):
    """A round for one node."""

    __slots__ = ("turn",)

    def __init__(self, turn: Turn, requests: Sequence[object], node: int, until: float) -> None:
        super().__init__(requests, (node,), until)
        self.turn = turn


class Cluster:
    """The way to each lock, for any number of threads or tasks."""

    def __init__(
        self,
        seeds: Sequence[Endpoint],
        address: Callable[[Endpoint], Address],
        nodes: Nodes,
    ) -> None:
        self._seeds = tuple(seeds)
        self._address, self._nodes = address, nodes
        self._clock = nodes.clock
        self._by_endpoint: dict[tuple[Endpoint, bool], Connection] = {}
        nodes.adapt, nodes.is_cluster = _ask_first, True
        self._known = self._seeds
        """The nodes to ask about the slots, the one that answered last first."""
        self._ranges: tuple[SlotRange, ...] = ()
        self._moved: dict[int, Endpoint] = {}
        """The slots that have moved since the ranges were read."""
        self._doubtful = True
        self._why: dict[str, str] = {}
        """What the nodes answered when the last question about the slots failed."""

    def ask(self, requests: Sequence[Request], until: float) -> Rounds[Sequence[Answer]]:
        """Answer each request."""
        first = requests[0]
        if self._doubtful and not (type(first) is Release and self._ranges):
            yield from self._learn(until)
        if isinstance(first, List):
            return [(yield from self._list(first, until))]
        slots = [_slot(request) for request in requests]
        answers: list[Answer] = [self._unknown(slot) for slot in slots]
        turns = {i: Turn(owner) for i, slot in enumerate(slots) if (owner := self._owner(slot))}
        if len(turns) < len(slots):
            self._doubtful = True  # the node that was asked may not have known better
        yield from self._send(requests, slots, turns, answers, until)
        return answers

    def _send(
        self,
        requests: Sequence[Request],
        slots: Sequence[int],
        turns: dict[int, Turn],
        answers: list[Answer],
        until: float,
    ) -> Rounds[None]:
        """Send each request to where its turn leads, and on from there; note each answer."""
        hops = 0
        while turns and hops < MOST_HOPS:
            failures: list[tuple[int, NodeRound, str]] = []
            for sent, indices in (yield from self._run(requests, turns, until)):
                for index, answer in zip(indices, self._nodes.answers(sent), strict=True):
                    answers[index] = answer
                    if type(answer) is Failed:
                        failures.append((index, sent, answer.nodes[0][1]))
            if not failures:
                return
            elsewhere = yield from self._elsewhere(failures, slots, until)
            later = self._clock() + A_MOMENT
            if later >= until:
                return
            if any(turn == turns[index] for index, turn in elsewhere.items()):
                yield Sleep(later)
            else:
                hops += 1
            turns = elsewhere

    def _run(
        self, requests: Sequence[Request], turns: dict[int, Turn], until: float
    ) -> Rounds[list[tuple[NodeRound, list[int]]]]:
        """Send requests: what goes to one endpoint goes together, in order."""
        groups: dict[Turn, list[int]] = {}
        for index, turn in turns.items():
            groups.setdefault(turn, []).append(index)
        rounds = [
            (self._round(turn, [requests[index] for index in indices], until), indices)
            for turn, indices in groups.items()
        ]
        yield Together([sent for sent, _ in rounds])
        return rounds

    def _round(self, turn: Turn, requests: Sequence[object], until: float) -> NodeRound:
        connection = self._connection(turn.endpoint, exclusive=type(requests[0]) is Write)
        return NodeRound(turn, requests, connection.index, until)

    def _connection(self, endpoint: Endpoint, *, exclusive: bool = False) -> Connection:
        connection = self._by_endpoint.get((endpoint, exclusive))
        if connection is None:
            made = self._nodes.add(self._address(endpoint), Handshake(), exclusive=exclusive)
            # Another thread may have made it meanwhile.
            connection = self._by_endpoint.setdefault((endpoint, exclusive), made)
        return connection

    def _elsewhere(
        self, failures: Sequence[tuple[int, NodeRound, str]], slots: Sequence[int], until: float
    ) -> Rounds[dict[int, Turn]]:
        """Where to ask again, for those of the failed requests that another node may answer."""
        turns: dict[int, Turn] = {}
        unanswered: dict[int, Endpoint] = {}
        for index, sent, why in failures:
            turn = self._redirected(why, sent, slots[index])
            if turn is not None:
                turns[index] = turn
            elif type(sent.requests[0]) is not Write:  # which must not be repeated
                unanswered[index] = sent.turn.endpoint
        self._doubtful = True
        releases = type(failures[0][1].requests[0]) is Release
        if unanswered:
            yield from self._learn(until)
            for index, endpoint in unanswered.items():
                owner = self._owner(slots[index])
                if owner is not None and owner != endpoint and not releases:
                    turns[index] = Turn(owner)
        return turns

    def _list(self, request: List, until: float) -> Rounds[Answer]:
        """Each master lists its own, in order; so the first of all are among the first of each."""
        while masters := list(dict.fromkeys(each.master for each in self._ranges)):
            rounds = [self._round(Turn(master), (request,), until) for master in masters]
            yield Together(rounds)
            answers = [self._nodes.answers(sent)[0] for sent in rounds]
            for at, master in enumerate(masters):
                while type(answer := answers[at]) is Listing and answer.cursor:
                    until = max(until, self._clock() + A_STEP)
                    further = replace(request, cursor=answer.cursor)
                    sent = self._round(Turn(master), (further,), until)
                    yield sent
                    [answers[at]] = self._nodes.answers(sent)
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
            yield Sleep(later)
            yield from self._learn(until)
        return self._unknown(0)

    def _learn(self, until: float) -> Rounds[None]:
        """Ask one node after another which master owns which slots, until one answers. Each has
        half of the time that is left."""
        for endpoint in self._known:
            now = self._clock()
            if now >= until:
                return
            asking = Exchange((command(b"CLUSTER", b"SLOTS"),), _read_slots)
            sent = self._round(Turn(endpoint), (asking,), now + (until - now) / 2)
            yield sent
            [answer] = self._nodes.answers(sent)
            if isinstance(answer, SlotMap) and answer.reply:
                self._take(endpoint, read_slots(endpoint, answer.reply))
                return
            none = Failed.at(endpoint.name, "has no slots assigned")
            self._why |= dict((answer if type(answer) is Failed else none).nodes)
            self._known = (*(other for other in self._known if other != endpoint), endpoint)

    def _take(self, source: Endpoint, ranges: tuple[SlotRange, ...]) -> None:
        known = dict.fromkeys((source, *(each.master for each in ranges), *self._seeds))
        self._known = tuple(known)
        self._ranges = ranges
        self._moved = {}
        self._doubtful = False
        self._why = {}

    def _owner(self, slot: int) -> Endpoint | None:
        if slot in self._moved:
            return self._moved[slot]
        ranges = self._ranges
        at = bisect_right(ranges, slot, key=lambda each: each.first) - 1
        return ranges[at].master if at >= 0 and slot <= ranges[at].last else None

    def _redirected(self, why: str, sent: NodeRound, slot: int) -> Turn | None:
        """Where an error redirects the request; None if it is no such error."""
        kind, _, rest = why.partition(" ")
        if kind == "TRYAGAIN":
            return sent.turn
        if kind not in ("MOVED", "ASK"):
            return None
        host, _, port = rest.partition(" ")[2].rpartition(":")
        endpoint = Endpoint(host if host not in ("", "?") else sent.turn.endpoint.host, int(port))
        if kind == "ASK":
            return Turn(endpoint, asking=True)
        self._moved[slot] = endpoint
        return Turn(endpoint)

    def _unknown(self, slot: int) -> Failed:
        """The answer when no node is known that could be asked."""
        if self._ranges:
            return Failed.at("the cluster", f"no node has slot {slot}")
        return Failed(tuple(self._why.items()) or (("the cluster", "was not asked in time"),))


def read_slots(asked: Endpoint, reply: Sequence[Sequence[object]]) -> tuple[SlotRange, ...]:
    """Read the reply to `CLUSTER SLOTS`. A node without a name is the one that was asked."""
    ranges = []
    for first, last, (host, port, *_), *_ in cast(Sequence[tuple[int, int, list[object]]], reply):
        name = host.decode() if isinstance(host, bytes) else ""
        endpoint = Endpoint(name if name not in ("", "?") else asked.host, cast(int, port))
        ranges.append(SlotRange(first, last, endpoint))
    return tuple(sorted(ranges))


def _slot(request: Request) -> int:
    """The slot of what it is about; a listing is about none."""
    return 0 if isinstance(request, List) else key_slot(keys_of(request.key, in_cluster=True).lock)


def _read_slots(replies: list[Reply]) -> Answers:
    [reply] = replies
    return [failed(reply) if isinstance(reply, Exception) else SlotMap(reply)]


def _ask_first(each: FanOut, exchange: Exchange) -> Exchange:
    """With ASKING before each command, to a node that the slot is on its way to."""
    if not isinstance(each, NodeRound) or not each.turn.asking:
        return exchange

    def read(replies: list[Reply]) -> Answers | Exchange:
        outcome = exchange.read(replies[1::2])
        return _ask_first(each, outcome) if isinstance(outcome, Exchange) else outcome

    asking = command(b"ASKING")
    return Exchange(tuple(each for one in exchange.commands for each in (asking, one)), read)
