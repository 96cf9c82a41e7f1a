"""The library's log, as messages on stderr."""

from __future__ import annotations

import logging

from holdfast.cli.output import Output
from holdfast.events import RenewalFailed


class LogToPeople(logging.Handler):
    """Errors are always shown, failed renewals unless quiet, the rest when verbose."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record."""
        text = self.format(record)
        about = record.args[0] if isinstance(record.args, tuple) and record.args else None
        if record.levelno >= logging.ERROR:
            self._output.error(text)
        elif isinstance(about, RenewalFailed):
            self._output.note(text)
        else:
            self._output.detail(text)


def show_log(output: Output) -> None:
    """Show what the library logs."""
    logging.getLogger("holdfast").addHandler(LogToPeople(output))
