"""A server's clock, as far as we know it."""

from holdfast.core.ports import Clock


class ServerClock:
    """What the server's clock shows when ours shows an instant, or a little more."""

    def __init__(self, clock: Clock) -> None:
        self.ours = clock
        self._ahead = 0.0

    def learn(self, asked_at: float, said: float) -> None:
        """The server said this time, some time after it was asked."""
        self._ahead = said - asked_at

    def when(self, instant: float) -> float:
        """What the server's clock shows then."""
        return instant + self._ahead
