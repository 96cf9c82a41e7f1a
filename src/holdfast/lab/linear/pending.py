"""What is under way at an instant."""

from dataclasses import dataclass, field

from holdfast.lab.linear.operation import Action, Operation, Outcome

LONERS = ""
"""The group of all those of whom nothing else is under way or to come."""


@dataclass(slots=True)
class Pending:
    """Operations under way, by their numbers; of unknown outcome (`spare`), they are so for ever.

    Refusals are not among them: views know which of them they owe.
    """

    acquires: dict[int, Operation] = field(default_factory=dict)
    releases: dict[str, tuple[int, ...]] = field(default_factory=dict)
    spare_acquires: dict[str, tuple[tuple[float, int], ...]] = field(default_factory=dict)
    """By owner, with what expires first at the front."""
    spare_releases: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def copy(self) -> "Pending":
        """The same, to go on from another time."""
        return Pending(
            dict(self.acquires),
            dict(self.releases),
            dict(self.spare_acquires),
            dict(self.spare_releases),
        )

    def add(self, number: int, operation: Operation) -> None:
        """It is invoked."""
        who = operation.who
        match operation.action, operation.outcome:
            case Action.ACQUIRE, Outcome.OK:
                self.acquires[number] = operation
            case Action.ACQUIRE, Outcome.UNKNOWN:
                self._spare(who, (operation.expires, number))
            case Action.RELEASE, Outcome.OK:
                self.releases[who] = (*self.releases.get(who, ()), number)
            case Action.RELEASE, Outcome.UNKNOWN:
                self.spare_releases[who] = (*self.spare_releases.get(who, ()), number)
            case _, Outcome.NO:
                pass

    def remove(self, number: int, operation: Operation) -> None:
        """It has responded: it was granted, or it released."""
        if operation.action is Action.ACQUIRE:
            del self.acquires[number]
            return
        left = tuple(each for each in self.releases.pop(operation.who) if each != number)
        if left:
            self.releases[operation.who] = left

    def retire(self, who: str) -> None:
        """Put spare acquires among their like: nothing else is heard of their owner again."""
        if who not in self.spare_releases:
            for spare in self.spare_acquires.pop(who, ()):
                self._spare(LONERS, spare)

    def _spare(self, group: str, spare: tuple[float, int]) -> None:
        self.spare_acquires[group] = tuple(sorted((*self.spare_acquires.get(group, ()), spare)))
