"""The search for an order that explains a lock's operations (just-in-time linearization).

It goes through invocations and responses in the order of time, and keeps every *view* of what the
lock may be like by then. Views stay few, because

- an operation is carried out in a view only when a response calls for it, and with it only what may
  have to come before it, and be over by then (`_worth_while`);
- a refusal changes nothing, so it is carried out as soon as it can be (`_settled`);
- of acquires of unknown outcome whose owners are not heard of again, the one that expires first is
  used first: wherever another was used, it would have done as well, and the other would do later;
- a view that can do no more than another is dropped (`View.covers`).

After G. Lowe, "Testing for linearizability", 2017.
"""

from bisect import insort
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from typing import NamedTuple

from holdfast.lab.history import Finding
from holdfast.lab.hold import seconds
from holdfast.lab.linear.operation import Action, Model, Operation, Outcome

RULE = "one lock explains it"

NONE: frozenset[int] = frozenset()

LONERS = ""
"""The group of all those of whom nothing else is under way or to come."""

UNHEARD_PAIR = [(Action.ACQUIRE, Outcome.UNKNOWN), (Action.RELEASE, Outcome.UNKNOWN)]


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


class Views:
    """What the lock of one name may be like, as its operations go by."""

    def __init__(self, operations: list[Operation], model: Model) -> None:
        if model is Model.FENCED and any(_lacks_fence(each) for each in operations):
            raise ValueError("a fenced lock gives a fence with each acquire")
        self._operations = list(_paired_off(operations))
        self._model = model
        self._unanswered = Counter(each.who for each in self._operations)
        self._now = -inf
        self._views = [View()]
        # Those under way, by what they do; of unknown outcome, they are so for ever.
        self._acquires: dict[int, Operation] = {}
        self._releases: dict[str, list[int]] = {}
        self._spare_acquires: dict[str, list[tuple[float, int]]] = {LONERS: []}
        self._spare_releases: dict[str, list[int]] = {}

    def failure(self) -> Finding | None:
        """The first response that no view explains."""
        known = [n for n, each in enumerate(self._operations) if each.responded < inf]
        events = [(each.invoked, False, n) for n, each in enumerate(self._operations)]
        events += [(self._operations[n].responded, True, n) for n in known]
        for self._now, is_response, number in sorted(events):
            if not is_response:
                self._invoke(number)
            elif not (views := self._explained(number)):
                return _failure(self._operations[number], self._views)
            else:
                self._respond(number, views)
        return None

    def _invoke(self, number: int) -> None:
        operation = self._operations[number]
        who = operation.who
        match operation.action, operation.outcome:
            case _, Outcome.NO:
                self._views = [self._owing(view, number) for view in self._views]
            case Action.ACQUIRE, Outcome.OK:
                self._acquires[number] = operation
            case Action.RELEASE, Outcome.OK:
                self._releases.setdefault(who, []).append(number)
            case Action.ACQUIRE, _:
                insort(self._spare_acquires.setdefault(who, []), (operation.expires, number))
                self._retire(who)
            case _:
                self._spare_releases.setdefault(who, []).append(number)

    def _respond(self, number: int, views: list[View]) -> None:
        """Go on with these views, in which it has been carried out."""
        operation = self._operations[number]
        self._unanswered[operation.who] -= 1
        self._retire(operation.who)
        if operation.outcome is Outcome.OK:
            if operation.action is Action.ACQUIRE:
                del self._acquires[number]
            else:
                self._releases[operation.who].remove(number)
                if not self._releases[operation.who]:
                    del self._releases[operation.who]
            views = [view._replace(done=view.done - {number}) for view in views]
        self._views = _uncovered(views)

    def _retire(self, who: str) -> None:
        """Put spare acquires among their like, if nothing else is heard of their owner again."""
        spares = self._spare_acquires.get(who, [])
        if spares and len(spares) == self._unanswered[who]:
            del self._spare_acquires[who]
            for spare in spares:
                insort(self._spare_acquires[LONERS], spare)

    def _explained(self, number: int) -> list[View]:
        """Every view in which this operation has been carried out, and nothing after it."""
        return [way for view in self._views for way in self._ways(view, number)]

    def _ways(self, view: View, number: int) -> Iterator[View]:
        """Every way from a view to one in which this operation has just been carried out."""
        goal = self._operations[number]
        is_refusal = goal.outcome is Outcome.NO
        seen, ahead = {view}, [view]
        while ahead:
            each = ahead.pop()
            if number not in each.owed if is_refusal else number in each.done:
                yield each
                continue
            for then in self._steps(each, goal):
                if then not in seen:
                    seen.add(then)
                    ahead.append(then)

    def _steps(self, view: View, goal: Operation) -> Iterator[View]:
        """Whatever may happen next on the way to the goal."""
        if view.owner:
            if view.expires <= self._now:
                yield self._freed(view)
            for number in self._releases.get(view.owner, ()):
                if number not in view.done:
                    yield self._released(view._replace(done=view.done | {number}))
            for number in self._spare_releases.get(view.owner, ()):
                if number not in view.used:
                    yield self._released(view._replace(used=view.used | {number}))
                    break  # the others would do the same
        if not view.owner or self._model is Model.REENTRANT:
            for number in self._worth_while(view, goal):
                yield from self._acquired(view, number)

    def _worth_while(self, view: View, goal: Operation) -> Iterator[int]:
        """Acquires by which the goal is reached, or after which it still can be."""
        is_refusal = goal.action is Action.ACQUIRE and goal.outcome is Outcome.NO
        for number, each in self._acquires.items():
            if number not in view.done and (
                is_refusal
                or each.who == goal.who
                or each.expires <= self._now
                or each.who in self._releases
                or each.who in self._spare_releases
            ):
                yield number
        # Of unknown outcome: only what a refusal or a release cannot do without.
        waits = any(self._waits(number, goal.who) for number in view.owed)
        for group in self._spare_acquires if waits else self._releases:
            for _, number in self._spare_acquires.get(group, ()):
                if number not in view.used:
                    yield number
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

    def _owing(self, view: View, refusal: int) -> View:
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


def _uncovered(views: list[View]) -> list[View]:
    """The views that no other covers."""
    kept: list[View] = []
    for view in views:
        if not any(each.covers(view) for each in kept):
            kept = [*(each for each in kept if not view.covers(each)), view]
    return kept


def _paired_off(operations: list[Operation]) -> Iterator[Operation]:
    """The same, but one acquire for each that was followed by a release, with both unheard.

    Such an acquire may be over at any instant since the release, as if it had expired.
    """
    calls: dict[str, list[Operation]] = {}
    for operation in operations:
        calls.setdefault(operation.who, []).append(operation)
    for each in calls.values():
        if [(call.action, call.outcome) for call in each] == UNHEARD_PAIR:
            acquire, release = each
            yield replace(acquire, expires=min(acquire.expires, release.invoked))
        else:
            yield from each


def _lacks_fence(operation: Operation) -> bool:
    granted = operation.action is Action.ACQUIRE and operation.outcome is Outcome.OK
    return granted and operation.fence is None


def _failure(operation: Operation, views: list[View]) -> Finding:
    lock = operation.name or "the lock"
    what = {
        (Action.ACQUIRE, Outcome.OK): f"was granted {lock}",
        (Action.ACQUIRE, Outcome.NO): f"was refused {lock}",
        (Action.RELEASE, Outcome.OK): f"released {lock}",
        (Action.RELEASE, Outcome.NO): f"was told that {lock} was not its own",
    }[operation.action, operation.outcome]
    fence = "" if operation.fence is None else f" (fence {operation.fence})"
    owners = sorted({view.owner for view in views})
    text = (
        f"no order explains that {operation.who} {what}{fence} between "
        f"{seconds(operation.invoked)} and {seconds(operation.responded)}: "
        f"{' or '.join(owner or 'nobody' for owner in owners)} had it"
    )
    last = min(view.fence for view in views)
    if last > -inf:
        text += f", and the last fence was {last}"
    who = (*filter(None, owners), operation.who)
    return Finding(RULE, text, operation.invoked, operation.responded, who)
