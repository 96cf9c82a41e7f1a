"""Green threads: gevent works on every engine; eventlet works, or is refused when a client is made.

Workers of Celery and gunicorn run under them, in processes of their own.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from importlib.util import find_spec
from pathlib import Path

import pytest

from .killable import environment
from .stage import Stage

pytestmark = [pytest.mark.slow, pytest.mark.mode("sync"), pytest.mark.turns]

PENDING = {
    "gevent": set[str](),
    "eventlet": set[str](),
}
"""The engines that do not do so yet."""

PROGRAM = Path(__file__).with_name("green.py")


async def play(stage: Stage, library: str) -> str:
    """Its last line; what it writes to stderr is shown if it fails."""
    if stage.engine.name in PENDING[library]:
        pytest.xfail(f"{stage.engine.name} does not work under {library} yet")
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    command = [sys.executable, "-P", "-W", "ignore", str(PROGRAM), library, stage.backend.url]
    program = await asyncio.create_subprocess_exec(
        *command, str(stage.short), stdout=PIPE, stderr=PIPE, env=environment()
    )
    try:
        out, err = await program.communicate()
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
    assert program.returncode == 0, err.decode()
    return out.decode().strip()


async def test_gevent(stage: Stage) -> None:
    assert await play(stage, "gevent") == "done"


async def test_eventlet_works_or_is_refused(stage: Stage) -> None:
    said = await play(stage, "eventlet")
    assert said == "done" or (said.startswith("refused: ") and "eventlet" in said)
