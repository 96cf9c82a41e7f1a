"""Where a test's locks are kept."""

from contextlib import AbstractContextManager


class Backend:
    """A fresh store for one test."""

    url: str

    def untouched(self) -> bool:
        """Whether no request has reached the store yet, as far as can be told."""
        return True

    def outage(self) -> AbstractContextManager[None]:
        """While it lasts, no request is answered. It comes after the store was first used."""
        raise NotImplementedError

    def restart(self) -> None:
        """Stops the store and starts it again, with no client connected: what it keeps survives."""
        raise NotImplementedError

    def residue(self) -> list[str]:
        """What lies in the store, so that two residues can be compared; no client is connected."""
        return []

    def close(self) -> None:
        """Gives the store up."""
