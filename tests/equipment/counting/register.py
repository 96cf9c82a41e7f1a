"""A number that clients read, add one to, and write back, each under its lease."""

import threading


class Register:
    """A register. A `fenced` one refuses a smaller fence than it has seen, be it in a read: who
    has read with a greater one is about to write, and must not find another number by then."""

    def __init__(self, *, fenced: bool) -> None:
        self.value = 0
        self.taken = 0
        """How many writes it has acknowledged."""
        self.refused = 0
        """How many it has not."""
        self._fenced, self._fence = fenced, 0
        self._changed = threading.Condition()

    @property
    def lost(self) -> int:
        """How many counts were acknowledged, and are not in the number."""
        return self.taken - self.value

    def read(self, fence: int) -> int | None:
        """The number; None for one who comes too late."""
        with self._changed:
            return self.value if self._admits(fence) else None

    def write(self, value: int, fence: int) -> bool:
        """Whether it was taken."""
        with self._changed:
            if not self._admits(fence):
                self.refused += 1
                return False
            self.value = value
            self.taken += 1
            self._changed.notify_all()
            return True

    def wait_for(self, value: int, seconds: float) -> bool:
        """Wait until the number is that or more; False if it is not in that time."""
        with self._changed:
            return self._changed.wait_for(lambda: self.value >= value, seconds)

    def _admits(self, fence: int) -> bool:
        newest = max(self._fence, fence)
        self._fence = newest
        return not self._fenced or fence == newest
