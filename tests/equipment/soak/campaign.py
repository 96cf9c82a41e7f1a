"""When what is done to whom: a deck of all faults is dealt again and again, in rounds."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import TypeAlias, TypeVar

from holdfast.lab.history import Kind
from tests.equipment.soak.faults import (
    DISTURBANCES,
    amnesia,
    disk_full,
    disturbed,
    frozen,
    killed,
    outlived,
    restarted,
)
from tests.equipment.soak.ground import TTL, Client, Ground, Node

T = TypeVar("T")

AT_ONCE = 3
"""How many nodes may have a fault at a time: a majority, so at times no client gets a lock."""

LONGEST = 1.5 * TTL
"""So that some faults outlast a lease."""

BREATH = 0.3
"""Seconds between two rounds."""


class Hand:
    """The possible targets of the faults of one round: none twice."""

    def __init__(self, ground: Ground, chance: random.Random) -> None:
        self.ground = ground
        self.journal = ground.journal
        self._chance = chance
        self._nodes = shuffled(ground.nodes, chance)
        self._clients = shuffled(ground.clients, chance)

    def node(self) -> Node:
        """Any node."""
        return self._nodes.pop()

    def durable_node(self) -> Node:
        """Any node that forgets nothing: there are as many of them as there are faults at once."""
        node = next(node for node in self._nodes if node.durable)
        self._nodes.remove(node)
        return node

    def client(self) -> Client:
        """Any client."""
        return self._clients.pop()

    def holder(self) -> Client:
        """A client that most likely has a lock."""
        holder = self.ground.likely_holder()
        if holder not in self._clients:
            return self.client()
        self._clients.remove(holder)
        return holder

    def some_clients(self) -> list[Client]:
        """One, several or all. They stay in the hand: their processes are well."""
        return self._clients[: self._chance.randint(1, len(self._clients))]


Card: TypeAlias = Callable[[Hand], AbstractContextManager[None]]


def _disturb(what: str, hand: Hand) -> AbstractContextManager[None]:
    return disturbed(hand.journal, what, hand.node(), hand.some_clients())


CARDS: dict[str, Card] = {
    "frozen": lambda hand: frozen(hand.journal, hand.node()),
    "killed": lambda hand: killed(hand.journal, hand.node()),
    "restarted": lambda hand: restarted(hand.journal, hand.node()),
    "disk full": lambda hand: disk_full(hand.journal, hand.durable_node()),
    "client frozen": lambda hand: frozen(hand.journal, hand.client()),
    "client killed": lambda hand: killed(hand.journal, hand.client()),
    "holder outlived": lambda hand: outlived(hand.journal, hand.holder()),
    "holder killed": lambda hand: killed(hand.journal, hand.holder()),
    "amnesia": lambda hand: amnesia(hand.ground, hand.durable_node()),
    **{what: partial(_disturb, what) for what in DISTURBANCES},
}

ALONE = "amnesia"
"""The one that needs all nodes and clients for itself."""


class Campaign:
    """Rounds of faults, each of one to three cards."""

    def __init__(self, ground: Ground, seed: int) -> None:
        self.dealt: Counter[str] = Counter()
        self._ground = ground
        self._chance = random.Random(seed)
        self._deck: list[str] = []

    def run(self, seconds: float) -> None:
        """Go on for so long; then all faults are over."""
        journal = self._ground.journal
        ends_at = journal.now() + seconds
        while journal.now() < ends_at:
            hand = Hand(self._ground, self._chance)
            with ExitStack() as faults:
                for card in self._deal():
                    faults.enter_context(CARDS[card](hand))
                time.sleep(self._chance.uniform(0, LONGEST))
            time.sleep(BREATH)
        journal.note("soak", Kind.HEALED, "the last fault is over")

    def _deal(self) -> Iterator[str]:
        """The cards of one round. Every card comes once before any comes again."""
        for number in range(self._chance.randint(1, AT_ONCE)):
            if not self._deck:
                self._deck = shuffled(list(CARDS), self._chance)
            if self._deck[-1] == ALONE and number > 0:
                return
            card = self._deck.pop()
            self.dealt[card] += 1
            yield card
            if card == ALONE:
                return


def shuffled(items: Sequence[T], chance: random.Random) -> list[T]:
    """The same in another order."""
    return chance.sample(items, len(items))
