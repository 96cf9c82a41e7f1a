"""Whether to look for a reply again and again, or to go to sleep and be woken by it."""

MOST_SKIPS = 32


class Eagerness:
    """Whether to look for a reply again and again before going to sleep. What was in vain is not
    tried the next time; what was so again and again, twice as many times after each."""

    __slots__ = ("_skips", "_vain")

    def __init__(self) -> None:
        self._skips = self._vain = 0

    def pays(self) -> bool:
        """Whether it is worth trying."""
        if self._skips:
            self._skips -= 1
            return False
        return True

    def has_paid(self) -> None:
        """It was there in time."""
        self._vain = 0

    def was_vain(self) -> None:
        """It was not."""
        self._vain = self._skips = min(2 * self._vain or 1, MOST_SKIPS)
