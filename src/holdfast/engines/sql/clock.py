"""A server's clock, as far as the client knows it."""

from typing import Any

from holdfast.core.ports import Clock
from holdfast.engines.sql.commands import MICROSECONDS


class ServerClock:
    """What the server's clock shows when ours shows an instant, or a little more."""

    def __init__(self, clock: Clock) -> None:
        self.ours = clock
        self._ahead = 0.0

    def values(self) -> dict[str, Any]:
        """Nothing: statements read the server's clock themselves."""
        return {}

    def deadline(self, until: float) -> int:
        """What the server's clock shows at an instant of ours, in microseconds."""
        return round((until + self._ahead) * MICROSECONDS)

    def learn(self, asked_at: float, now: int) -> None:
        """The server's clock showed `now` some time after `asked_at`."""
        self._ahead = now / MICROSECONDS - asked_at
