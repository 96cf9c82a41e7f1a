"""The library's log, as messages on stderr."""

from __future__ import annotations

import logging

from holdfast.cli.say import Say
from holdfast.events import RenewalFailed


class LogToPeople(logging.Handler):
    """Errors are always shown, failed renewals unless quiet, the rest when verbose."""

    def __init__(self, say: Say) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record."""
        text = self.format(record)
        about = record.args[0] if isinstance(record.args, tuple) and record.args else None
        if record.levelno >= logging.ERROR:
            self._say.error(text)
        elif isinstance(about, RenewalFailed):
            self._say.note(text)
        else:
            self._say.detail(text)


def show_log(say: Say) -> None:
    """Show what the library logs."""
    logging.getLogger("holdfast").addHandler(LogToPeople(say))
