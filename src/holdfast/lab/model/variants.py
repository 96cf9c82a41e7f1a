"""What is checked: the algorithm as it is, and others that must be caught, or must not."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum

from holdfast.lab.model.fences import (
    Explored,
    Model,
    Rules,
    Scope,
    explore,
    holders_agree,
    tokens_grow,
)
from holdfast.lab.model.nodes import Node


def median(counters: Collection[int]) -> int:
    """A token from the middle, not the greatest."""
    return sorted(counters)[(len(counters) - 1) // 2]


def any_grants(counters: Collection[int], _token: int, quorum: int) -> bool:
    """A quorum of grants commits a token, whatever their counters: there is no raise round."""
    return len(counters) >= quorum


def at_least(counters: Collection[int], token: int, quorum: int) -> bool:
    """A counter that is greater than the token is a vote for it."""
    return sum(counter >= token for counter in counters) >= quorum


def raise_for_any(node: Node, _holder: str, token: int) -> tuple[Node, int | None]:
    """A node raises its counter without comparing the holder."""
    raised = node._replace(counter=max(node.counter, token))
    return raised, raised.counter


def answer_any(node: Node, holder: str, token: int) -> tuple[Node, int | None]:
    """A node raises its counter for its holder alone, and reports it to any client."""
    raised, _ = node.raise_counter(holder, token)
    return raised, raised.counter


def answer_greater(node: Node, holder: str, token: int) -> tuple[Node, int | None]:
    """A node also reports a counter that is greater than the token to its holder. Harmless by
    itself."""
    raised, _ = node.raise_counter(holder, token)
    return raised, raised.counter if node.owner == holder else None


class Group(StrEnum):
    """Why a variant is here."""

    ALGORITHM = "the algorithm as it is: must hold"
    WRONG = "wrong on purpose: must be caught"
    HARMLESS = "looks wrong, but holds"


@dataclass(frozen=True, slots=True)
class Variant:
    """One thing to explore."""

    name: str
    group: Group
    scope: Scope
    rules: Rules
    what: str
    """What is different, or what can happen, in a line."""

    @property
    def model(self) -> Model:
        """Its states and moves."""
        return Model(self.scope, self.rules)


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a variant."""

    variant: Variant
    explored: Explored

    @property
    def as_expected(self) -> bool:
        """Whether it was caught if it is wrong, and holds if it is not."""
        caught = self.explored.violation is not None
        return caught == (self.variant.group is Group.WRONG)


def run(name: str) -> Result:
    """Explore the variant of that name."""
    variant = VARIANTS[name]
    return Result(variant, explore(variant.model, tokens_grow, holders_agree))


RULES = Rules()
AT_LEAST = replace(RULES, is_committed=at_least, raise_counter=answer_greater)
THREE = Scope(attempts=3)
LATE = Scope(attempts=2, late=True)
FAR_APART = replace(LATE, proposals=(0, 2, 4))
AGAIN = replace(LATE, repeats=1)

_ALL = (
    Variant("fences", Group.ALGORITHM, THREE, RULES, "three attempts that receive every grant"),
    Variant(
        "fences-late",
        Group.ALGORITHM,
        LATE,
        RULES,
        "acquires that are executed late, and grants that are lost",
    ),
    Variant(
        "fences-far-apart",
        Group.ALGORITHM,
        FAR_APART,
        RULES,
        "the same, and counters that are further apart",
    ),
    Variant(
        "fences-again",
        Group.ALGORITHM,
        AGAIN,
        RULES,
        "the same, and one acquire is executed twice",
    ),
    Variant(
        "median",
        Group.WRONG,
        THREE,
        replace(AT_LEAST, token_of=median),
        "the token is the median, and a greater counter is a vote for it",
    ),
    Variant(
        "no-raise",
        Group.WRONG,
        THREE,
        replace(RULES, is_committed=any_grants),
        "any quorum of grants commits, without a raise round",
    ),
    Variant(
        "raise-for-any",
        Group.WRONG,
        THREE,
        replace(RULES, raise_counter=raise_for_any),
        "a raise does not compare the holder",
    ),
    Variant(
        "answer-any",
        Group.WRONG,
        THREE,
        replace(RULES, raise_counter=answer_any),
        "a raise by another client changes nothing, but is answered with the counter",
    ),
    Variant(
        "at-least",
        Group.WRONG,
        AGAIN,
        AT_LEAST,
        "a counter greater than the token is a vote for it",
    ),
    Variant(
        "no-grant",
        Group.WRONG,
        LATE,
        replace(AT_LEAST, granted_only=False),
        "a greater counter is a vote, also from nodes whose grant was not received",
    ),
    Variant(
        "median-exact",
        Group.HARMLESS,
        LATE,
        replace(RULES, token_of=median),
        "the median, but only an equal counter is a vote: safe, and may never acquire",
    ),
    Variant(
        "no-grant-exact",
        Group.HARMLESS,
        LATE,
        replace(RULES, granted_only=False),
        "nodes whose grant was not received may vote, but only by an equal counter",
    ),
    Variant(
        "at-least-once",
        Group.HARMLESS,
        LATE,
        AT_LEAST,
        "a greater counter is a vote, but no acquire is executed twice",
    ),
)

VARIANTS: dict[str, Variant] = {variant.name: variant for variant in _ALL}
"""All variants, by name."""
