"""What is checked: the algorithm as it is, and wrong ones that must be caught."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any, NamedTuple

from holdfast.lab.model import Explorable, exclusion
from holdfast.lab.model.exclusion import SLOTS, Exclusion
from holdfast.lab.model.fences import Model, Rules, Scope
from holdfast.lab.model.nodes import Node


def median(counters: Collection[int]) -> int:
    """A fence from the middle, not the greatest."""
    return sorted(counters)[(len(counters) - 1) // 2]


def any_grants(counters: Collection[int], _fence: int, quorum: int) -> bool:
    """A quorum of grants commits a fence, whatever their counters: there is no raise round."""
    return len(counters) >= quorum


def at_least(counters: Collection[int], fence: int, quorum: int) -> bool:
    """A counter that is greater than the fence is a vote for it."""
    return sum(counter >= fence for counter in counters) >= quorum


def raise_for_any(node: Node, _holder: str, fence: int) -> tuple[Node, int | None]:
    """A node raises its counter without comparing the holder."""
    raised = node._replace(counter=max(node.counter, fence))
    return raised, raised.counter


def answer_greater(node: Node, holder: str, fence: int) -> tuple[Node, int | None]:
    """A node also reports a counter that is greater than the fence to its holder. Harmless by
    itself."""
    raised, _ = node.raise_counter(holder, fence)
    return raised, raised.counter if node.owner == holder else None


def open_as_it_is(node: Node, holder: str, proposed: int, reads: bool) -> tuple[Node, int | None]:
    """The first reader of a free node gets the last counter, not a greater one."""
    if reads and not node.owner and node.counter:
        return Node(holder, node.counter, shared=True), node.counter
    return node.acquire(holder, proposed, reads)


def repair_as_it_is(node: Node, holder: str, fence: int, reads: bool) -> Node:
    """A reader's lease is restored on a free node without a greater counter."""
    if reads and not node.owner:
        return Node(holder, max(node.counter, fence), shared=True)
    return node.repair(holder, fence, reads)


def two_slots(node: Node, name: str, kind: str) -> Node | None:
    """A node has two slots, and counts on its own."""
    owners = "".join(sorted(node.owner + name))
    return Node(owners, shared=True) if len(owners) <= SLOTS else None


def release_slot(node: Node, name: str) -> Node:
    """A slot is free again."""
    owners = node.owner.replace(name, "")
    return Node(owners, shared=bool(owners))


class Variant(NamedTuple):
    """One thing to explore: its states, moves and promises; and in a line, what is different, or
    what can happen."""

    model: Explorable[Any]
    what: str


RULES = Rules()
AT_LEAST = replace(RULES, is_committed=at_least, raise_counter=answer_greater)
THREE = Scope(("WWW",))
LATE = Scope(("WW",), late=True)
FAR_APART = replace(LATE, proposals=(0, 2, 4))
AGAIN = replace(LATE, repeats=1)
READERS = Scope(("RWR", "WRW"))
READERS_AGAIN = Scope(("RW", "WR"), late=True, repeats=1)
RESTORED = Scope(("RWR",), proposals=(0,), repairs=1)

CODE = exclusion.Rules()
CROWD = exclusion.Scope(("RRW", "RWR", "WRR", "RWW", "WRW", "WWR"), restarts=1, repairs=1)
FIVE = exclusion.Scope(("RW", "WR"), nodes=5, restarts=2, repairs=1)
SLOT_SEEKERS = exclusion.Scope(("SSS",))

ALGORITHM = {
    "fences": Variant(Model(THREE, RULES), "three attempts that receive every grant"),
    "fences-late": Variant(
        Model(LATE, RULES),
        "acquires that are executed late, and grants that are lost",
    ),
    "fences-far-apart": Variant(
        Model(FAR_APART, RULES),
        "the same, and counters that are further apart",
    ),
    "fences-again": Variant(Model(AGAIN, RULES), "the same, and one acquire is executed twice"),
    "fences-readers": Variant(Model(READERS, RULES), "three attempts, of which some read"),
    "fences-readers-late": Variant(
        Model(READERS_AGAIN, RULES),
        "a reader and a writer: acquires that are executed late or twice, and grants lost",
    ),
    "fences-restored": Variant(
        Model(RESTORED, RULES),
        "a node restores a lease that it has lost, in time or late",
    ),
    "readers": Variant(
        Exclusion(CROWD, CODE),
        "readers and writers never hold together; a node restarts empty, leases are restored",
    ),
    "readers-five": Variant(
        Exclusion(FIVE, CODE),
        "a reader and a writer on five nodes, of which two restart empty",
    ),
}
"""The algorithm as it is: must hold."""

WRONG = {
    "median": Variant(
        Model(THREE, replace(AT_LEAST, fence_of=median)),
        "the fence is the median, and a greater counter is a vote for it",
    ),
    "no-raise": Variant(
        Model(THREE, replace(RULES, is_committed=any_grants)),
        "any quorum of grants commits, without a raise round",
    ),
    "raise-for-any": Variant(
        Model(THREE, replace(RULES, raise_counter=raise_for_any)),
        "a raise does not compare the holder",
    ),
    "at-least": Variant(
        Model(AGAIN, AT_LEAST),
        "a counter greater than the fence is a vote for it",
    ),
    "no-grant": Variant(
        Model(LATE, replace(AT_LEAST, granted_only=False)),
        "a greater counter is a vote, also from nodes whose grant was not received",
    ),
    "open-as-it-is": Variant(
        Model(READERS, replace(RULES, acquire=open_as_it_is)),
        "the first reader of a free node gets the last counter",
    ),
    "repair-as-it-is": Variant(
        Model(RESTORED, replace(RULES, repair=repair_as_it_is)),
        "a reader's lease that is restored late leaves the counter as it is",
    ),
    "no-guard": Variant(
        Exclusion(CROWD, replace(CODE, guard=False)),
        "a node that restarts empty votes again at once",
    ),
    "counting": Variant(
        Exclusion(SLOT_SEEKERS, replace(CODE, grant=two_slots, release=release_slot)),
        "a semaphore of two slots: each node counts on its own",
    ),
}
"""Wrong on purpose: must be caught."""

VARIANTS = ALGORITHM | WRONG
