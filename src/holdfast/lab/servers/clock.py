"""The wall clock of one server, to be set forwards and back while it runs. Linux only.

A small library (`clock.c`) is preloaded into the server and adds an offset to its wall clock. The
offset lies in a file that both map, so that a jump takes effect at once. The server's monotonic
clock, and all other clocks, stay as they are.
"""

import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from holdfast.lab.servers.process import ProgramMissing, find_compiler

SOURCE = Path(__file__).with_name("clock.c")
GLANCE = 0.002
"""Valkey looks at the wall clock once in a millisecond; in between it counts for itself."""

_FILE = struct.Struct("=qq")
"""What is in the file: the offset in nanoseconds, and the process that reads it."""


class Clock:
    """A wall clock that is right until it jumps. `file` keeps its offset, and the library is beside
    it; both are overwritten."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._library = build_library(file.with_suffix(".so"))
        file.write_bytes(_FILE.pack(0, 0))

    def jump(self, seconds: float) -> None:
        """Set it forwards by `seconds`, or back if negative: in force on return."""
        self._write(self.offset + seconds)

    @property
    def offset(self) -> float:
        """How far it is ahead of the true time, in seconds."""
        return self._read()[0] / 1e9

    @property
    def reader(self) -> int:
        """The id of the last process that goes by it; 0 if there was none."""
        return self._read()[1]

    def given_to(self, command: Sequence[str]) -> list[str]:
        """The command that runs `command` by this clock."""
        settings = [f"LD_PRELOAD={self._library}", f"HOLDFAST_CLOCK={self._file}"]
        return ["env", *settings, *command]

    def _read(self) -> tuple[int, int]:
        offset, reader = _FILE.unpack(self._file.read_bytes())
        return offset, reader

    def _write(self, offset: float) -> None:
        with self._file.open("r+b", buffering=0) as file:
            file.write(struct.pack("=q", round(offset * 1e9)))  # in one write: the server reads it
        time.sleep(GLANCE)


def build_library(built: Path) -> Path:
    """Compile the library to be preloaded, which takes a tenth of a second."""
    if sys.platform != "linux":
        raise ProgramMissing("only on Linux can the clock of a single process be set")
    compiler = find_compiler()
    command = [compiler, "-O2", "-fPIC", "-shared", "-o", str(built), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True)  # noqa: S603 - our own words
    if done.returncode != 0:
        raise ProgramMissing(
            f"{compiler} cannot compile {SOURCE.name}; install Debian's package libc6-dev; "
            f"its output:\n{done.stderr}"
        )
    return built
