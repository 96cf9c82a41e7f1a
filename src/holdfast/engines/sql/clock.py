"""The clock by which a database ends leases, as far as the client knows it."""

from typing import Any

from holdfast.core.ports import Clock
from holdfast.engines.sql.dialect import MICROSECONDS


class ServerClock:
    """That of a server: what it shows when ours shows an instant, or a little more."""

    def __init__(self, clock: Clock) -> None:
        self.ours = clock
        self._ahead = 0.0

    def values(self) -> dict[str, Any]:
        """The values of statements that depend on it: none, they read it themselves."""
        return {}

    def deadline(self, until: float) -> int:
        """What it shows at an instant of ours, in microseconds."""
        return round((until + self._ahead) * MICROSECONDS)

    def learn(self, asked_at: float, now: int) -> None:
        """It showed `now` some time after `asked_at`."""
        self._ahead = now / MICROSECONDS - asked_at


class BootClock:
    """That of the host since it was started, which is our own."""

    def __init__(self, clock: Clock, boot: str) -> None:
        self.ours, self.boot = clock, boot

    def now(self) -> int:
        """In microseconds, and never earlier than the clock."""
        return int(self.ours() * MICROSECONDS) + 1

    def values(self) -> dict[str, Any]:
        """The instant, and of which boot it is."""
        return {"now": self.now(), "boot": self.boot}

    def deadline(self, until: float) -> int:
        """None: what was sent too late cannot be executed later."""
        return 1 << 62

    def learn(self, asked_at: float, now: int) -> None:
        """There is nothing to learn: it is our own clock."""
