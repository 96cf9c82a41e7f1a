"""What a lock may be like, and what may happen to it next.

Views stay few, because

- an operation is carried out in a view only when a response calls for it, and with it only what may
  have to come before it, and be over by then (`_worth_while`);
- a refusal changes nothing, so it is carried out as soon as it can be (`_settled`);
- of acquires of unknown outcome whose owners are not heard of again, the one that expires first is
  used first: wherever another was used, it would have done as well, and the other would do later;
- a release of unknown outcome is not used on what may have expired: that does it for nothing;
- a view that can do no more than another is dropped (`View.covers`).
"""

from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from holdfast.lab.linear.operation import Action, Model, Operation, Outcome
from holdfast.lab.linear.pending import Pending

NONE: frozenset[int] = frozenset()


class View(NamedTuple):
    """What the lock may be like, and what has been carried out for that."""

    owner: str = ""
    depth: int = 0
    expires: float = inf
    fence: float = -inf
    """The last one; if it is not known, the least that it can be."""
    done: frozenset[int] = NONE
    """Acquires and releases that are carried out, and have not responded yet."""
    owed: frozenset[int] = NONE
    """Refusals that are under way, and not carried out."""
    used: frozenset[int] = NONE
    """Operations of unknown outcome that are carried out."""

    def covers(self, other: "View") -> bool:
        """Whether all that can follow the other can follow this."""
        return (
            self.owner == other.owner
            and self.depth == other.depth
            and self.done == other.done
            and self.owed <= other.owed
            and self.used <= other.used
            and self.fence <= other.fence
            and self.expires <= other.expires
        )


class Rules:
    """What may happen to the lock of one name."""

    def __init__(self, operations: list[Operation], model: Model) -> None:
        self._operations = operations
        self._model = model

    def is_done(self, view: View, number: int) -> bool:
        """Whether an operation that is under way has been carried out."""
        if self._operations[number].outcome is Outcome.NO:
            return number not in view.owed
        return number in view.done

    def steps(self, view: View, number: int, now: float, pending: Pending) -> Iterator[View]:
        """Whatever may happen next on the way to this operation."""
        if view.owner:
            expired = view.expires <= now
            if expired:
                yield self._freed(view)
            for each in pending.releases.get(view.owner, ()):
                if each not in view.done:
                    yield self._released(view._replace(done=view.done | {each}))
            for each in () if expired else pending.spare_releases.get(view.owner, ()):
                if each not in view.used:
                    yield self._released(view._replace(used=view.used | {each}))
                    break  # the others would do the same
        if not view.owner or self._model is Model.REENTRANT:
            for each in self._worth_while(view, number, now, pending):
                yield from self._acquired(view, each)

    def _worth_while(self, view: View, number: int, now: float, pending: Pending) -> Iterator[int]:
        """Acquires by which the goal is reached, or after which it still can be."""
        goal = self._operations[number]
        is_refusal = goal.action is Action.ACQUIRE and goal.outcome is Outcome.NO
        if number in pending.acquires:
            yield number
        for other, each in pending.acquires.items():
            if (
                other not in view.done
                and other != number
                and (
                    is_refusal
                    or each.who == goal.who
                    or each.expires <= now
                    or each.who in pending.releases
                    or each.who in pending.spare_releases
                )
            ):
                yield other
        # Of unknown outcome: only what a refusal or a release cannot do without.
        waits = any(self._waits(refusal, goal.who) for refusal in view.owed)
        for group in pending.spare_acquires if waits else pending.releases:
            for _, spare in pending.spare_acquires.get(group, ()):
                if spare not in view.used:
                    yield spare
                    break  # the others expire later

    def _waits(self, refusal: int, who: str) -> bool:
        """Whether this is for this client, and waits for somebody else to have the lock."""
        operation = self._operations[refusal]
        return operation.action is Action.ACQUIRE and operation.who == who

    def _acquired(self, view: View, number: int) -> Iterator[View]:
        operation = self._operations[number]
        if view.owner and view.owner != operation.who:
            return
        done, used, fence = view.done, view.used, view.fence
        if operation.outcome is Outcome.UNKNOWN:
            used, fence = used | {number}, fence + 1
        else:
            done = done | {number}
            if self._model is Model.FENCED and operation.fence is not None:
                if operation.fence <= fence:
                    return
                fence = operation.fence
        expires = max(view.expires, operation.expires) if view.owner else operation.expires
        depth = view.depth + 1
        yield self._settled(View(operation.who, depth, expires, fence, done, view.owed, used))

    def _released(self, view: View) -> View:
        if view.depth > 1:
            return view._replace(depth=view.depth - 1)
        return self._freed(view)

    def _freed(self, view: View) -> View:
        return self._settled(view._replace(owner="", depth=0, expires=inf))

    def owing(self, view: View, refusal: int) -> View:
        """A view when a refusal is under way."""
        if self._refuses(view, self._operations[refusal]):
            return view
        return view._replace(owed=view.owed | {refusal})

    def _settled(self, view: View) -> View:
        """A view in which every refusal that can be carried out, is."""
        owed = [n for n in view.owed if not self._refuses(view, self._operations[n])]
        return view if len(owed) == len(view.owed) else view._replace(owed=frozenset(owed))

    def _refuses(self, view: View, operation: Operation) -> bool:
        if operation.action is Action.RELEASE:
            return view.owner != operation.who
        mine = self._model is Model.REENTRANT and view.owner == operation.who
        return bool(view.owner) and not mine
