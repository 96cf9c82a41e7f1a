"""The library's log, as messages to people."""

from __future__ import annotations

import logging
import math
import time

from holdfast.cli.say import Say
from holdfast.events import RenewalFailed

_REPEAT_AFTER = 60.0


class LogToPeople(logging.Handler):
    """Shows defects always, a failing engine once a minute, the rest to those who want detail."""

    def __init__(self, say: Say) -> None:
        super().__init__()
        self._say = say
        self._quiet_until = -math.inf

    def emit(self, record: logging.LogRecord) -> None:
        """Say it, if it is time to."""
        text = self.format(record)
        if record.levelno >= logging.ERROR:
            self._say.error(text)
        elif self._is_news(record):
            self._say.note(text)
        else:
            self._say.detail(text)

    def _is_news(self, record: logging.LogRecord) -> bool:
        about = record.args
        if not isinstance(about, tuple) or not isinstance(about[0], RenewalFailed):
            return False
        now = time.monotonic()
        if now < self._quiet_until:
            return False
        self._quiet_until = now + _REPEAT_AFTER
        return True


def show_log(say: Say) -> None:
    """Send what the library logs through `say`."""
    logging.getLogger("holdfast").addHandler(LogToPeople(say))
