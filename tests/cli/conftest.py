"""What the tests of the command line are given."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from .processes import Holdfast, end_session


@pytest.fixture(autouse=True, scope="session")
def signals_as_in_a_terminal() -> None:
    """Tests that run in the background of a shell would ignore some signals, and so would all
    that they start."""
    for signum in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTSTP):
        if signal.getsignal(signum) is signal.SIG_IGN:
            signal.signal(signum, signal.SIG_DFL)


@pytest.fixture
def holdfast(tmp_path: Path) -> Iterator[Holdfast]:
    """`holdfast`, on a database of this test's own; whatever is left running is killed."""
    cli = Holdfast(tmp_path / "locks.db")
    yield cli
    for process in cli.started:
        end_session(process.pid)
        process.communicate()
