"""Being struck at one line after the other, as by a Ctrl-C or by what a signal handler raises."""

import sys
from types import FrameType


class Strike:
    """Within its block, raises something at the nth line of some files that is come to."""

    def __init__(
        self, line: int, files: tuple[str, ...], error: type[BaseException] = KeyboardInterrupt
    ) -> None:
        self._left, self._files, self._error = line, files, error
        self.struck = False

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        sys.settrace(self)

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def __call__(self, frame: FrameType, event: str, _: object) -> "Strike | None":
        if not frame.f_code.co_filename.endswith(self._files) or self.struck:
            return None
        if event == "line":
            self._left -= 1
            if self._left < 0:
                self.struck = True
                raise self._error("too late")
        return self
