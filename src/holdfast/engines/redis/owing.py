"""The order of what makes a lock and what ends it, over several connections to one node."""

import threading
from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.core.attempt import MARK, holder_of
from holdfast.core.fanout import FanOut
from holdfast.core.messages import Acquire, Release, Repair

ORDERED = (Acquire, Release, Repair)
"""What makes a lock, or ends one, and so must keep its order."""


def holders_of(poll: FanOut) -> Sequence[str]:
    """The holders whose locks a poll may make, or end; and the ballots, by which a lease that came
    of one is known later."""
    first = poll.requests[0]
    if not isinstance(first, ORDERED):  # all are of one kind
        return ()
    if len(poll.requests) == 1 and MARK not in first.holder:
        return (first.holder,)  # mostly
    names = [request.holder for request in poll.requests if isinstance(request, ORDERED)]
    return [*names, *(holder for name in names if (holder := holder_of(name)) != name)]


class Owing:
    """The circuits on which something that makes or ends a holder's lock may not be answered yet.

    What follows must go out there, behind it: a node that was only stopped, or slow, might carry it
    out in another order on another connection, and a grant that was heard would be undone. A
    circuit is named here from when it stops listening until it has seen that all is answered.
    """

    __slots__ = ("_has_noted", "_mutex", "all", "circuits", "noting", "resting")

    def __init__(self) -> None:
        self.circuits: dict[str, tuple[Any, ...]] = {}
        """By holder."""
        self.all: list[Any] = []
        """Every circuit there is."""
        self.resting: list[Any] = []
        """The circuits that nobody uses: what comes there is not read until somebody does. Whoever
        takes one out is its only user."""
        self.noting = False
        """Whether there was ever more than one circuit: till then, there is no other to know of."""
        self._has_noted = False
        """And whether what was owed until then is noted."""
        self._mutex = threading.RLock()  # a signal handler may close a client meanwhile

    @property
    def is_quiet(self) -> bool:
        """Whether no thread of this client is at work but the one that asks. One that looks for its
        replies again and again would keep the others from theirs, by the interpreter's lock."""
        return len(self.all) <= len(self.resting) + 1

    def admit(self, circuit: Any) -> None:
        """A new one. What is owed on the first is noted from when there is a second."""
        with self._mutex:
            self.all.append(circuit)
            if self._has_noted or len(self.all) == 1:
                return
            self.noting = True  # first: whoever stops listening meanwhile notes that by itself
            for other in list(self.all):
                other.note_all()
            self._has_noted = True  # last: a signal handler that strikes before must do it, too

    def add(self, holders: Iterable[str], circuit: object) -> None:
        """Something of theirs is not answered there."""
        for holder in holders:
            if circuit not in self.circuits.setdefault(holder, (circuit,)):
                with self._mutex:  # once more: the others may have been removed meanwhile
                    there = self.circuits.setdefault(holder, (circuit,))
                    if circuit not in there:
                        self.circuits[holder] = (*there, circuit)

    def remove(self, holders: Iterable[str], circuit: object) -> None:
        """Nothing of theirs is owed there any more."""
        with self._mutex:
            for holder in holders:
                there = self.circuits.get(holder, ())
                if circuit not in there:
                    continue
                others = tuple(other for other in there if other is not circuit)
                if others:  # in one step, as whoever looks does so without the mutex
                    self.circuits[holder] = others
                else:
                    self.circuits.pop(holder, None)

    def elsewhere(self, holders: Sequence[str], circuit: object) -> Sequence[Any]:
        """The circuits but this one on which something of these holders may be owed, now that those
        that rest have heard what has come."""
        others = self._others(holders, circuit)
        if others:
            self._rouse(others)
            others = self._others(holders, circuit)
        return others

    def _others(self, holders: Sequence[str], circuit: object) -> Sequence[Any]:
        others: list[Any] = []
        for holder in holders:
            there = self.circuits.get(holder)
            if there is not None and there != (circuit,):
                others += (other for other in there if other is not circuit)
        return others

    def _rouse(self, circuits: Iterable[Any]) -> None:
        """Have those that rest hear what has come: else it would be owed until they are used."""
        for circuit in circuits:
            try:
                self.resting.remove(circuit)
            except ValueError:
                continue  # it is at work, and hears by itself
            try:
                circuit.catch_up()
            finally:
                self.resting.append(circuit)
