"""Real processes: `holdfast`, its commands, and ways to wait for them without sleeping blindly."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import IO, Any, TypeVar

import pytest

from holdfast.cli import main

T = TypeVar("T")

PATIENCE = 200.0
"""How long anything may take on a busy machine before a test gives up on it."""


def eventually(condition: Callable[[], T]) -> T:
    """Look until the condition is true; its value."""
    give_up_at = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < give_up_at, f"never came true: {condition}"
        time.sleep(0.01)
    return value


def state(pid: int) -> str:
    """The process's state as one letter: T is suspended, Z a zombie, X gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def gone(pid: int) -> bool:
    """Whether the process is over (a zombie is)."""
    return state(pid) in "XZ"


def end_session(leader: int) -> None:
    """Kill whatever is left of a session, so that no test leaves a process behind."""
    for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):
        with suppress(ProcessLookupError):
            if os.getsid(pid) == leader:
                os.kill(pid, signal.SIGKILL)


EACH = """
import json, os, sys
import holdfast.cli.hold, holdfast.cli.operate, holdfast.cli.run, holdfast.engines.sql.sqlite
from holdfast.cli import main
for args in json.loads(sys.argv[1]):
    out, err = os.pipe(), os.pipe()
    if not os.fork():
        os.dup2(out[1], 1), os.dup2(err[1], 2)
        sys.argv[1:] = args
        main()
    os.close(out[1]), os.close(err[1])
    texts = [open(pipe[0]).read() for pipe in (out, err)]
    code = os.waitstatus_to_exitcode(os.wait()[1])
    print(json.dumps([code, *texts]), flush=True)
"""
"""Runs the program with each list of arguments. To start it anew for each takes longer."""


class Holdfast:
    """Runs the command line against one database."""

    def __init__(self, database: Path) -> None:
        self.database = database
        self.url = f"sqlite://{database}"
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *args: str, **options: Any) -> subprocess.Popen[str]:
        """Start `holdfast` with these arguments, in a session of its own."""
        environment = {**os.environ, "HOLDFAST_URL": self.url, **options.pop("env", {})}
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast.cli", *args],
            env=environment,
            text=True,
            start_new_session=True,
            **{**streams, **options},
        )
        self.started.append(process)
        return process

    def run(self, *args: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run `holdfast` with these arguments to its end."""
        process = self.start(*args, **options)
        out, err = process.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess(args, process.returncode, out, err)

    def run_each(self, *cases: list[str], url: str | None = None) -> list[tuple[int, str, str]]:
        """Run `holdfast` with each of these arguments: exit codes, stdout and stderr."""
        argv = [sys.executable, "-c", EACH, json.dumps(cases)]
        environment = {**os.environ, "HOLDFAST_URL": url or self.url}
        done = subprocess.run(
            argv,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            env=environment,
            timeout=PATIENCE,
        )
        assert done.stderr == ""
        return [tuple(json.loads(line)) for line in done.stdout.splitlines()]

    def ask(self, *cases: list[str], url: str | None = None) -> list[tuple[int, str, str]]:
        """The same within this process, which takes less: for what starts no other."""
        return [in_this_process(args, url or self.url) for args in cases]

    def hold(self, name: str, *options: str) -> subprocess.Popen[str]:
        """Have a process hold the lock until its stdin is closed."""
        process = self.start("run", *options, name, "-c", "echo held; cat")
        assert line_of(process.stdout) == "held"
        return process


def _handlers() -> list[object]:
    return [signal.getsignal(each) for each in sorted(signal.valid_signals())]


def in_this_process(args: list[str], url: str) -> tuple[int, str, str]:
    """Run the program without a terminal: its exit code, stdout and stderr. It must not be one that
    handles signals: they would stay as it has set them."""
    handling = _handlers()
    out, err = StringIO(), StringIO()
    logger = logging.getLogger("holdfast")
    handlers = logger.handlers[:]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("HOLDFAST_URL", url)
        patch.setattr(sys, "argv", ["holdfast", *args])
        patch.setattr(sys, "stdin", StringIO())
        with pytest.raises(SystemExit) as ended:
            main()
    logger.handlers[:] = handlers
    assert _handlers() == handling, args
    code = ended.value.code
    assert isinstance(code, int)
    return code, out.getvalue(), err.getvalue()


def line_of(stream: IO[str] | None) -> str:
    """The next line that a process writes, without its end."""
    assert stream is not None
    return stream.readline().rstrip("\n")


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Close its stdin and wait for it: exit code, and what was left to read of stdout, stderr."""
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err
