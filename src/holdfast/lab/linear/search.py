"""The search for an order that explains a lock's operations (just-in-time linearization).

It goes through invocations and responses in the order of time, and keeps views of what the lock may
be like by then. To keep all of them can take for ever: each reply that was lost may have been any
of many. So it keeps only a few: those with the least fence, and then those that made use of the
fewest operations of unknown outcome. If these come to an end, it goes back a little and keeps more,
and in the end all. One order is enough to explain the history; that there is none is said only when
nothing was left out.

After G. Lowe, "Testing for linearizability", 2017.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from math import inf

from holdfast.lab.history import Finding
from holdfast.lab.hold import seconds
from holdfast.lab.linear.operation import Action, Model, Operation, Outcome
from holdfast.lab.linear.pending import Pending
from holdfast.lab.linear.views import Rules, View

RULE = "one lock explains it"

NARROW = 1
"""How many views are kept at first."""
PATIENCE = 50
"""For each view that is kept, how many may be looked at on the way to a response."""
STRIDE = 64
"""How many events there are from mark to mark."""
ATTEMPTS = 5
"""How often it goes back, each time further and with more views, before it keeps all of them."""

UNHEARD_PAIR = [(Action.ACQUIRE, Outcome.UNKNOWN), (Action.RELEASE, Outcome.UNKNOWN)]


@dataclass(frozen=True, slots=True)
class Mark:
    """Where the search can begin again."""

    position: int
    views: list[View]
    pending: Pending
    whole: bool
    """Whether no view was left out so far."""


class Search:
    """The search through the operations of one name."""

    def __init__(self, operations: list[Operation], model: Model, *, stride: int = STRIDE) -> None:
        if model is Model.FENCED and any(_lacks_fence(each) for each in operations):
            raise ValueError("a fenced lock gives a fence with each acquire")
        self._operations = list(_paired_off(operations))
        self._rules = Rules(self._operations, model)
        self._events = sorted(_events(self._operations))
        self._last_heard = {
            self._operations[number].who: position
            for position, (_, _, number) in enumerate(self._events)
        }
        self._stride = stride
        self._views = [View()]
        self._pending = Pending()
        self._whole = True
        self._width: float = NARROW
        self._marks: list[Mark] = []

    def failure(self) -> Finding | None:
        """The first response that no view explains."""
        position = furthest = attempt = 0
        while position < len(self._events):
            if position % self._stride == 0:
                self._mark(position)
            if self._pass(position):
                position += 1
                if position > furthest:
                    furthest, attempt, self._width = position, 0, NARROW
            elif self._whole:
                return _failure(self._operations[self._events[position][2]], self._views)
            else:
                attempt += 1
                position = self._go_back(attempt)
        return None

    def _mark(self, position: int) -> None:
        self._marks.append(Mark(position, self._views, self._pending.copy(), self._whole))

    def _go_back(self, attempt: int) -> int:
        """Begin again at an earlier mark, with more views; and say where."""
        if attempt <= ATTEMPTS:
            self._width = NARROW * 4**attempt
            del self._marks[max(1, len(self._marks) - 2**attempt + 1) :]
        else:
            self._width = inf
            while not self._marks[-1].whole:
                self._marks.pop()
        mark = self._marks.pop()
        self._views, self._pending, self._whole = mark.views, mark.pending, mark.whole
        return mark.position

    def _pass(self, position: int) -> bool:
        """Let the views go past this event, if any can."""
        now, is_response, number = self._events[position]
        operation = self._operations[number]
        if is_response:
            views = self._explained(number, now)
            if not views:
                return False
            if operation.outcome is Outcome.OK:
                self._pending.remove(number, operation)
                views = [view._replace(done=view.done - {number}) for view in views]
            self._views = views if len(views) == 1 else _uncovered(views)
        elif operation.outcome is Outcome.NO:
            self._views = [self._rules.owing(view, number) for view in self._views]
        else:
            self._pending.add(number, operation)
        if self._last_heard[operation.who] == position:
            self._pending.retire(operation.who)
        return True

    def _explained(self, number: int, now: float) -> list[View]:
        """Views in which this operation has been carried out, and nothing after it."""
        found = [view for view in self._views if self._rules.is_done(view, number)]
        seen = set(self._views)
        ahead = [
            (view.fence, len(view.used), count, view)
            for count, view in enumerate(self._views)
            if not self._rules.is_done(view, number)
        ]
        heapify(ahead)
        looked_at = 0
        while ahead:
            _, _, _, view = heappop(ahead)
            for then in self._rules.steps(view, number, now, self._pending):
                if len(found) >= self._width or looked_at > PATIENCE * self._width:
                    self._whole = False
                    return found
                if then in seen:
                    continue
                looked_at += 1
                seen.add(then)
                if self._rules.is_done(then, number):
                    found.append(then)
                else:
                    heappush(ahead, (then.fence, len(then.used), -looked_at, then))
        return found


def _events(operations: list[Operation]) -> Iterator[tuple[float, bool, int]]:
    """Instants, whether it is a response, and of which operation."""
    for number, operation in enumerate(operations):
        yield operation.invoked, False, number
        if operation.responded < inf:
            yield operation.responded, True, number


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
