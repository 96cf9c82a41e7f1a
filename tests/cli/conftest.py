"""What the tests of the command line are given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .processes import Holdfast, end_session


@pytest.fixture
def holdfast(tmp_path: Path) -> Iterator[Holdfast]:
    """`holdfast`, on a database of this test's own; whatever is left running is killed."""
    cli = Holdfast(tmp_path / "locks.db")
    yield cli
    for process in cli.started:
        end_session(process.pid)
        process.communicate()
