"""Rules that are wrong, or look it. Each is a mistake that somebody has made, or nearly."""

from collections.abc import Collection

from holdfast.lab.model import nodes
from holdfast.lab.model.fences import Node as Counting
from holdfast.lab.model.nodes import FREE, Node, Outcome


def median(counters: Collection[int]) -> int:
    """A token from the middle, not the greatest."""
    return sorted(counters)[(len(counters) - 1) // 2]


def any_grants(counters: Collection[int], _token: int, quorum: int) -> bool:
    """A quorum of grants commits a token, whatever their counters: there is no raise round."""
    return len(counters) >= quorum


def at_least(counters: Collection[int], token: int, quorum: int) -> bool:
    """A counter that is greater than the token is a vote for it."""
    return sum(counter >= token for counter in counters) >= quorum


def raise_for_anybody(node: Counting, _holder: str, token: int) -> tuple[Counting, int | None]:
    """A node raises its counter without looking whose its lock is."""
    raised = node._replace(counter=max(node.counter, token))
    return raised, raised.counter


def answer_anybody(node: Counting, holder: str, token: int) -> tuple[Counting, int | None]:
    """A node raises its counter for its holder alone, and tells it to anybody."""
    raised, _ = node.raise_counter(holder, token)
    return raised, raised.counter


def tell_greater(node: Counting, holder: str, token: int) -> tuple[Counting, int | None]:
    """A node tells its holder a counter that is greater than the token, too. By itself harmless."""
    raised, _ = node.raise_counter(holder, token)
    return raised, raised.counter if node.owner == holder else None


def extend_that_shortens(node: Node, who: int, ttl: int) -> Outcome:
    """The new end, even if it is before the old one."""
    return (Node(who, ttl), "Done") if node.owner == who else nodes.extend(node, who, ttl)


def extend_that_resurrects(node: Node, who: int, ttl: int) -> Outcome:
    """What is not there is put there, and counts as if it had been there all the time."""
    return (Node(who, ttl), "Done") if node == FREE else nodes.extend(node, who, ttl)


def extend_that_repairs(node: Node, who: int, ttl: int) -> Outcome:
    """What is not there is put there before a quorum has said that the lease still lasts."""
    return (Node(who, ttl), "Missing") if node == FREE else nodes.extend(node, who, ttl)
