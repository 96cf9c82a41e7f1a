"""Starting a program that does not outlive this process, even one that is killed."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def launch(command: Sequence[str], folder: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start a program within `folder`; what it writes is appended to `log`."""
    return _launcher.submit(_launch, [*bound_to_us(), *command], folder, log).result()


# The system ends a bound program when the thread that started it ends, so that thread must be one
# that stays as long as the process does.
_launcher = ThreadPoolExecutor(1, "holdfast-launcher")


def _renew_launcher() -> None:
    global _launcher
    _launcher = ThreadPoolExecutor(1, "holdfast-launcher")


os.register_at_fork(after_in_child=_renew_launcher)


def bound_to_us() -> list[str]:
    """What asks Linux to kill the program when we die; elsewhere, it outlives a killed run."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []


def _launch(command: list[str], folder: Path, log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(  # noqa: S603 - it is to run programs
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for us: we stop our servers in order
            restore_signals=False,  # SIGXFSZ stays ignored: no room for a file is no death
        )
