"""Histories for the check of linearizability, and a check that tries every order."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import inf
from random import Random

from holdfast.lab.linear import Action, Model, Operation, Outcome

OK, NO, UNKNOWN = Outcome.OK, Outcome.NO, Outcome.UNKNOWN
ACQUIRE, RELEASE = Action.ACQUIRE, Action.RELEASE


@dataclass(frozen=True)
class Lock:
    """A lock, by the book."""

    model: Model
    owner: str = ""
    depth: int = 0
    expires: float = -inf
    fence: int = 0

    def freed(self) -> "Lock":
        return Lock(self.model, fence=self.fence)

    def may_acquire(self, who: str) -> bool:
        return not self.owner or (self.model is Model.REENTRANT and self.owner == who)

    def acquired(self, who: str, expires: float, fence: int) -> "Lock":
        return Lock(self.model, who, self.depth + 1, max(expires, self.expires), fence)

    def released(self) -> "Lock":
        return replace(self, depth=self.depth - 1) if self.depth > 1 else self.freed()


def explained_by_some_order(operations: list[Operation], model: Model) -> bool:
    """Whether any order, any expiry and any fence that was not heard of explains them."""
    fences = [each.fence or 0 for each in operations]
    lowest, highest = min(fences) - len(fences), max(fences) + len(fences)
    return _some_order(tuple(operations), Lock(model, fence=lowest), -inf, highest)


def _some_order(left: tuple[Operation, ...], lock: Lock, clock: float, highest: int) -> bool:
    if all(each.outcome is UNKNOWN for each in left):
        return True
    states = [(lock, clock)]
    if lock.owner:
        states.append((lock.freed(), max(clock, lock.expires)))
    return any(
        _some_order((*left[:n], *left[n + 1 :]), then, max(now, each.invoked), highest)
        for state, now in states
        for n, each in enumerate(left)
        if max(now, each.invoked) <= each.responded
        for then in _answers(state, each, highest)
    )


def _answers(lock: Lock, call: Operation, highest: int) -> Iterator[Lock]:
    """What the lock is like when it has answered so; nothing if it would not have."""
    if call.action is RELEASE:
        if call.outcome is NO:
            yield from [lock] if lock.owner != call.who else []
        elif lock.owner == call.who:
            yield lock.released()
    elif call.outcome is NO:
        yield from [] if lock.may_acquire(call.who) else [lock]
    elif lock.may_acquire(call.who):
        if lock.model is not Model.FENCED:
            fences = [0]
        elif call.outcome is UNKNOWN:
            fences = list(range(lock.fence + 1, highest + 1))
        else:
            fences = [each for each in [call.fence or 0] if each > lock.fence]
        yield from (lock.acquired(call.who, call.expires, fence) for fence in fences)


def at_random(random: Random, model: Model) -> list[Operation]:
    """A few operations that have nothing to do with each other."""
    return [_any_operation(random, model) for _ in range(random.randint(1, 6))]


def _any_operation(random: Random, model: Model) -> Operation:
    action, outcome = (
        random.choice([ACQUIRE, ACQUIRE, RELEASE]),
        random.choice([OK, OK, NO, UNKNOWN]),
    )
    invoked = random.randint(0, 8)
    granted = action is ACQUIRE and outcome is OK
    return Operation(
        who=random.choice("ABC"),
        action=action,
        outcome=outcome,
        invoked=invoked,
        responded=inf if outcome is UNKNOWN else invoked + random.randint(0, 4),
        fence=random.randint(1, 5) if granted and model is Model.FENCED else None,
        expires=random.choice([inf, invoked + random.randint(0, 6)]),
    )


def damaged(random: Random, operations: list[Operation]) -> list[Operation]:
    """The same, but for one operation."""
    at = random.randrange(len(operations))
    call = operations[at]
    if call.outcome is UNKNOWN:
        call = replace(call, outcome=NO, responded=call.invoked + random.randint(0, 3))
    elif random.random() < 0.4:
        call = replace(call, outcome=NO if call.outcome is OK else OK, fence=call.fence or 1)
    elif call.fence is not None and random.random() < 0.5:
        call = replace(call, fence=max(1, call.fence + random.randint(-2, 2)))
    else:
        earlier = random.randint(0, 3)
        call = replace(call, invoked=call.invoked - earlier, responded=call.responded - earlier)
    return [*operations[:at], call, *operations[at + 1 :]]


class Run:
    """Clients that call a lock which keeps the rules, on a network that may lose an answer.

    Whoever hears nothing goes on as somebody else, as after a crash; or, if it `keeps_name`, as
    itself, with anything.
    """

    def __init__(
        self,
        random: Random,
        model: Model,
        clients: int,
        *,
        ttl: int,
        lost: float,
        whole: bool,
        keeps_name: bool = False,
    ) -> None:
        self._random = random
        self._lock = Lock(model)
        self._ttl = ttl
        self._lost = lost
        self._whole = whole
        """Whether instants are whole numbers, so that many are equal."""
        self._keeps_name = keeps_name
        self._heap: list[tuple[float, int, float, str, Action]] = []
        self._calls = self._lives = 0
        for _ in range(clients):
            self._call(0, self._somebody(), ACQUIRE)

    def operations(self, count: int) -> list[Operation]:
        """The first so many."""
        return [self._answer(*heappop(self._heap)) for _ in range(count)]

    def _answer(self, at: float, _: int, invoked: float, who: str, action: Action) -> Operation:
        random, lock = self._random, self._lock
        if lock.owner and at >= lock.expires and random.random() < 0.7:
            lock = lock.freed()
        expires, fence = at + self._ttl, None
        if action is RELEASE:
            outcome = OK if lock.owner == who else NO
            lock = lock.released() if outcome is OK else lock
        else:
            outcome = OK if lock.may_acquire(who) else NO
            if outcome is OK:
                lock = lock.acquired(who, expires, lock.fence + random.randint(1, 2))
                fence = lock.fence if lock.model is Model.FENCED else None
        self._lock = lock
        responded = at + self._span()
        if random.random() < self._lost:
            if self._keeps_name:
                self._call(responded, who, random.choice([ACQUIRE, RELEASE]))
            else:
                self._call(responded, self._somebody(), ACQUIRE)
            return Operation(who, action, UNKNOWN, invoked, expires=expires)
        self._go_on(responded, who, action, outcome)
        return Operation(who, action, outcome, invoked, responded, fence=fence, expires=expires)

    def _go_on(self, now: float, who: str, action: Action, outcome: Outcome) -> None:
        likely = RELEASE if action is ACQUIRE and outcome is OK else ACQUIRE
        unlikely = ACQUIRE if likely is RELEASE else RELEASE
        self._call(now + self._span(), who, likely if self._random.random() < 0.8 else unlikely)

    def _call(self, now: float, who: str, action: Action) -> None:
        self._calls += 1
        heappush(self._heap, (now + self._span(), self._calls, now, who, action))

    def _somebody(self) -> str:
        self._lives += 1
        return f"c{self._lives}"

    def _span(self) -> float:
        return self._random.randint(0, 2) if self._whole else self._random.random()
