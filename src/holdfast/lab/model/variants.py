"""What is checked: the algorithms as they are, and others that must be caught, or must not."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from holdfast.lab.model import leases, nodes, tokens
from holdfast.lab.model.nodes import FREE, Node, Outcome
from holdfast.lab.model.search import Explored, Judge, Model, explore
from holdfast.lab.model.state import Rules, Scope
from holdfast.lab.model.tokens import Node as Counting


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
    """A node raises its counter for its holder alone, and reports it to any client."""
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


class Group(StrEnum):
    """Why a variant is here."""

    ALGORITHM = "the algorithms as they are: must hold"
    WRONG = "wrong on purpose: must be caught"
    HARMLESS = "looks wrong, but holds"
    LIMIT = "the algorithm as it is, asked for more than it promises: must fail"


@dataclass(frozen=True, slots=True)
class Variant:
    """One thing to explore."""

    name: str
    group: Group
    what: str
    """What is different, or what can happen, in a line."""
    model: Model[Any]
    judges: tuple[Judge[Any], ...]

    @property
    def should_hold(self) -> bool:
        """What is expected of it."""
        return self.group in (Group.ALGORITHM, Group.HARMLESS)


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a variant."""

    variant: Variant
    explored: Explored

    @property
    def as_expected(self) -> bool:
        """Whether it holds if it should, and was caught if it should be."""
        return self.variant.should_hold == (self.explored.violation is None)


def run(name: str) -> Result:
    """Explore the variant of that name."""
    variant = VARIANTS[name]
    return Result(variant, explore(variant.model, *variant.judges))


def _tokens(
    name: str, group: Group, scope: tokens.Scope, rules: tokens.Rules, what: str
) -> Variant:
    model = tokens.Model(scope, rules)
    return Variant(name, group, what, model, (tokens.tokens_grow, tokens.tenures_agree))


def _beliefs(name: str, group: Group, scope: Scope, rules: Rules, what: str) -> Variant:
    model = leases.Model(scope, rules)
    return Variant(name, group, what, model, (leases.one_at_a_time, leases.broken_for_good))


COUNTING = tokens.Rules()
AT_LEAST = replace(COUNTING, is_committed=at_least, raise_counter=tell_greater)
THREE = tokens.Scope(attempts=3)
LATE = tokens.Scope(attempts=2, late=True)
FAR_APART = replace(LATE, proposals=(0, 2, 4))
AGAIN = replace(LATE, repeats=1)

RULES = Rules()
PLAIN = Scope()
RENEWED = Scope(extension=2)
SHORTENED = Scope(ttl=3, extension=1)
OVERTAKEN = Scope(late_releases=True)
RESTARTED = Scope(restarts=1)
DRIFTING = Scope(ttl=3, drift=1)
BROKEN = Scope(clients=1, extension=2, breaks=1)

_TOKENS = [
    ("tokens", THREE, "fences, three attempts that hear every grant they are given"),
    ("tokens-late", LATE, "fences, acquires that are executed late and unheard"),
    (
        "tokens-far-apart",
        FAR_APART,
        "fences, acquires late and unheard, and counters further apart",
    ),
    ("tokens-again", AGAIN, "fences, acquires late and unheard, and one is executed twice"),
]
_BELIEFS = [
    ("leases", PLAIN, "two clients acquire and release"),
    ("leases-three", Scope(clients=3), "three clients acquire and release"),
    ("leases-retried", OVERTAKEN, "releases are late or lost, and their senders ask again"),
    ("renewals", RENEWED, "holders renew, and repair nodes that have forgotten"),
    (
        "renewals-retried",
        Scope(extension=2, late_releases=True),
        "holders renew, and releases are late or lost",
    ),
    ("renewals-short", SHORTENED, "holders extend by less than they have"),
    ("restarts", Scope(extension=2, restarts=1), "a node restarts and has forgotten the lock"),
    ("restarts-two", Scope(restarts=2), "nodes restart twice, without renewals"),
    ("drift", DRIFTING, "each clock may gain a tick"),
    ("drift-renewals", Scope(extension=2, drift=1), "each clock may gain a tick; holders renew"),
    (
        "breaks",
        replace(BROKEN, clients=2),
        "an operator breaks the lock while nothing is on its way",
    ),
]
_WRONG_TOKENS = [
    (
        "median",
        THREE,
        replace(AT_LEAST, token_of=median),
        "the token is the median, and a greater counter is a vote for it",
    ),
    (
        "no-raise",
        THREE,
        replace(COUNTING, is_committed=any_grants),
        "any quorum of grants commits, without a raise round",
    ),
    (
        "raise-for-anybody",
        THREE,
        replace(COUNTING, raise_counter=raise_for_anybody),
        "a raise does not look whose the lock is",
    ),
    (
        "answer-anybody",
        THREE,
        replace(COUNTING, raise_counter=answer_anybody),
        "a raise changes nothing for others, but tells them the counter",
    ),
    (
        "at-least",
        AGAIN,
        AT_LEAST,
        "a counter greater than the token is a vote for it",
    ),
    (
        "unheard",
        LATE,
        replace(AT_LEAST, heard_only=False),
        "a greater counter is a vote, also from nodes whose grant was not heard",
    ),
]
_WRONG_BELIEFS = [
    ("quorum-short", PLAIN, replace(RULES, votes_short=1), "one vote less than a majority will do"),
    ("from-reply", PLAIN, replace(RULES, from_reply=True), "validity counts from the last reply"),
    (
        "extend-shortens",
        SHORTENED,
        replace(RULES, extend=extend_that_shortens),
        "an extend sets the end, even to an earlier one",
    ),
    (
        "extend-resurrects",
        BROKEN,
        replace(RULES, extend=extend_that_resurrects),
        "an extend brings back what has ended",
    ),
    (
        "repair-first",
        BROKEN,
        replace(RULES, extend=extend_that_repairs),
        "a node is repaired before a quorum has said that the lease lasts",
    ),
    (
        "no-guard",
        RESTARTED,
        replace(RULES, guard=False),
        "a node votes as soon as it has restarted",
    ),
    (
        "no-drift",
        Scope(drift=1),
        replace(RULES, allow_for_drift=False),
        "clocks drift, and nothing is allowed for it",
    ),
    (
        "overtaken",
        OVERTAKEN,
        replace(RULES, in_order=False),
        "a release may be executed after a later acquire of its sender's",
    ),
]
_HARMLESS = [
    (
        "median-exact",
        replace(COUNTING, token_of=median),
        "the median, but only an equal counter is a vote: safe, and may never acquire",
    ),
    (
        "unheard-exact",
        replace(COUNTING, heard_only=False),
        "nodes whose grant was not heard may vote, but only by an equal counter",
    ),
    (
        "at-least-once",
        AT_LEAST,
        "a greater counter is a vote, but no acquire is executed twice",
    ),
]

VARIANTS: dict[str, Variant] = {
    variant.name: variant
    for variant in (
        *(_tokens(name, Group.ALGORITHM, scope, COUNTING, what) for name, scope, what in _TOKENS),
        *(_beliefs(name, Group.ALGORITHM, scope, RULES, what) for name, scope, what in _BELIEFS),
        *(_tokens(n, Group.WRONG, scope, rules, what) for n, scope, rules, what in _WRONG_TOKENS),
        *(_beliefs(n, Group.WRONG, scope, rules, what) for n, scope, rules, what in _WRONG_BELIEFS),
        *(_tokens(name, Group.HARMLESS, LATE, rules, what) for name, rules, what in _HARMLESS),
        _beliefs(
            "break-amid-renewal",
            Group.LIMIT,
            replace(BROKEN, rude_breaks=True),
            RULES,
            "an operator breaks the lock while a renewal and a late acquire are on their way",
        ),
    )
}
"""All there is, by name."""
