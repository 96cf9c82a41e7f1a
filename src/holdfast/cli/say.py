"""What holdfast tells people: on stderr, short, each line with its name in front."""

from __future__ import annotations

from contextlib import suppress
import click


class Say:
    """`error` always; `note` unless quiet; `detail` when verbose."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self._quiet = quiet
        self._verbose = verbose

    def error(self, text: str) -> None:
        """What people must know."""
        with suppress(OSError):  # nobody listens: no reason to let go of the command
            click.echo(f"holdfast: {text}", err=True)

    def note(self, text: str) -> None:
        """What people would ask next."""
        if not self._quiet:
            self.error(text)

    def detail(self, text: str) -> None:
        """Each step."""
        if self._verbose:
            self.error(text)


def printable(text: str) -> str:
    """The text with everything escaped that could move a cursor or hide a line."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
