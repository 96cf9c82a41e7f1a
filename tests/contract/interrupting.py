"""An interruption at one line after the other, as by a Ctrl-C, or a signal handler that raises."""

import linecache
import sys
from types import FrameType

OUT_OF_REACH = (
    *("with ", "try:", "except ", "finally:"),
    *("if self._busy_thread == me:", "self._busy_thread =", "self.mutex.release()"),
    *("if permits:", "self._permits.put(None)"),
    *("depth = self._state.depth", "lease, depth = None, 0", "block, depth = None, 0"),
    "entered = None",
)
"""Where no signal handler runs: between taking, or releasing, a lock and the next call; and where
nothing is called, as before the `try:` of a release."""


class Interruption:
    """Within its block, raises something at the nth line of some files or folders that is come to:
    at any, or at those of some functions only. (One that raises at the end of a `with`, before that
    has let go of a lock, raises where no signal handler can.)"""

    def __init__(
        self,
        line: int,
        files: tuple[str, ...],
        error: type[BaseException] = KeyboardInterrupt,
        functions: tuple[str, ...] = (),
    ) -> None:
        self._left, self._files, self._error = line, files, error
        self._functions = functions
        self.happened = False
        self.where = ""

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        sys.settrace(self)

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def __call__(self, frame: FrameType, event: str, _: object) -> "Interruption | None":
        code = frame.f_code
        if self.happened or not any(each in code.co_filename for each in self._files):
            return None
        if code.co_filename == __file__:  # in the wheel, this file is among those of holdfast
            return None
        if self._functions and code.co_name not in self._functions:
            return None
        if event == "line" and not _is_out_of_reach(frame):
            self._left -= 1
            if self._left < 0:
                self.happened = True
                self.where = f"{code.co_filename}, line {frame.f_lineno}"
                raise self._error("too late")
        return self


def _is_out_of_reach(frame: FrameType) -> bool:
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    return line.strip().startswith(OUT_OF_REACH)
