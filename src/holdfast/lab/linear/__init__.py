"""Linearizability: whether what clients were told can be explained by one lock.

It can if every operation can be given an instant between its invocation and its response, so that
in the order of these instants a lock, at first free, would have answered just so:

1. An acquire gets a free lock, and is refused one that is held. Where the model is `REENTRANT`,
   whoever has it gets it again, and has to release it as often.
2. A release is the owner's; to anybody else the lock says that it is not theirs.
3. Where the model is `FENCED`, each acquire gets a greater fence than every one before.
4. An acquire says when it `expires`. From then on (if it was acquired again: from the latest of
   these instants on) the lock may become free at any instant, whatever its depth. Nobody is told,
   and it need not happen.
5. An operation of which nothing was heard had its effect at any instant since, or never had any.

Operations that touch at an instant overlap. Names are locks of their own.
"""

from collections.abc import Iterable

from holdfast.lab.history import Finding, History
from holdfast.lab.linear.operation import Action, Model, Operation, Outcome
from holdfast.lab.linear.search import Search

__all__ = ["Action", "Model", "Operation", "Outcome", "check", "operations"]


def check(operations: Iterable[Operation], model: Model) -> list[Finding]:
    """For each name that no order explains, the first response that fits into none."""
    by_name: dict[str, list[Operation]] = {}
    for operation in operations:
        by_name.setdefault(operation.name, []).append(operation)
    failures = (Search(each, model).failure() for each in by_name.values())
    return [finding for finding in failures if finding is not None]


def operations(history: History) -> list[Operation]:
    """A history of leases as operations, for the models `LOCK` and `FENCED`.

    Each lease is an owner of its own, and may expire from when its holder believed in it no more:
    a release is no more than that, for nobody can tell when it had its effect. Refusals are left
    out: a client also gives up when too few nodes answer, and nothing follows from that.
    """
    found: list[Operation] = []
    for name, leases in history.leases().items():
        for lease in leases:
            granted, ended = lease.window
            found.append(
                Operation(
                    who=lease.hold,
                    action=Action.ACQUIRE,
                    outcome=Outcome.OK,
                    invoked=lease.asked,
                    responded=granted,
                    name=name,
                    fence=lease.fence,
                    expires=ended,
                )
            )
    return found
