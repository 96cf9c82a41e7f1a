"""Whether to look for a reply again and again, or to go to sleep and be woken by it."""

MOST_SKIPS = 32


class Eagerness:
    """Whether to look for a reply again and again before going to sleep. What was in vain is not
    tried the next time; what was so again and again, twice as many times after each."""

    __slots__ = ("_skips", "vain")

    def __init__(self) -> None:
        self._skips = self.vain = 0
        """`vain`: how many tries the last one in vain has cost, if it was the last one."""

    def pays(self) -> bool:
        """Whether it is worth trying."""
        if self._skips:
            self._skips -= 1
            return False
        return True

    def has_paid(self) -> None:
        """It was there in time."""
        self.vain = 0

    def was_vain(self) -> None:
        """It was not."""
        self.vain = self._skips = min(2 * self.vain or 1, MOST_SKIPS)
