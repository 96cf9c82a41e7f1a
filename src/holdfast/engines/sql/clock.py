"""The clock by which a database ends leases, as far as the client knows it."""

from typing import Any, Protocol

from holdfast.core.ports import Clock
from holdfast.engines.sql.dialect import MICROSECONDS


class DatabaseClock(Protocol):
    """That of any database."""

    def ours(self) -> float:
        """The client's own clock."""
        ...

    def values(self) -> dict[str, Any]:
        """The values of statements that depend on it."""
        ...

    def deadline(self, until: float) -> int:
        """What it shows at an instant of the client's clock, or a little more, in microseconds."""
        ...

    def learn(self, asked_at: float, now: int) -> None:
        """It showed `now` some time after `asked_at`."""
        ...


class ServerClock:
    """That of a server. Statements read it themselves."""

    def __init__(self, clock: Clock) -> None:
        self.ours = clock
        self._ahead = 0.0

    def values(self) -> dict[str, Any]:
        """None."""
        return {}

    def deadline(self, until: float) -> int:
        """By what was learnt of it."""
        return round((until + self._ahead) * MICROSECONDS)

    def learn(self, asked_at: float, now: int) -> None:
        """It showed `now` some time after `asked_at`."""
        self._ahead = now / MICROSECONDS - asked_at
