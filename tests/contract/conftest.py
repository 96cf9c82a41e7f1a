"""Runs every scenario over every engine and colour that it can run over."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from .engines import ENGINES, NEEDS, Engine
from .stage import Colour, Stage

HANGS_AFTER = 60.0
SLOW_HANGS_AFTER = 110.0


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "core: depends on the core alone, not on the engine")
    config.addinivalue_line("markers", "colour(name): a scenario that exists in one colour only")
    config.addinivalue_line(
        "markers", f"needs(*things): what an engine must be able to do, of {', '.join(NEEDS)}"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "stage" not in metafunc.fixturenames:
        return
    scenario = metafunc.function.__name__.removeprefix("test_")
    needs = tuple(need for mark in metafunc.definition.iter_markers("needs") for need in mark.args)
    colours = [mark.args[0] for mark in metafunc.definition.iter_markers("colour")] or [
        "sync",
        "async",
    ]
    runs = []
    part = metafunc.module.__name__.rpartition(".test_")[2]
    core = metafunc.definition.get_closest_marker("core") is not None
    full = metafunc.config.getoption("full")
    for number, engine in enumerate(ENGINES):
        if not (full or engine.plays(part, core)):
            continue
        if not full and engine.only and "restart" in needs:
            continue  # its servers are restarted for the engine whose code it shares
        refusal = engine.refusal(scenario, needs)
        # `make test` plays each scenario in one colour on each engine, by turns; in both on two.
        turn = (number + crc32(scenario.encode())) % len(colours)
        for colour in colours if full or engine.both else colours[turn : turn + 1]:
            # Such a server takes seconds to start: once for each colour, not for each process.
            group = pytest.mark.xdist_group(f"{engine.server}-{colour}")
            marks = [group] if engine.server else []
            marks += [pytest.mark.skip(reason=refusal)] if refusal else []
            runs.append(pytest.param((engine, colour), id=f"{engine.name}-{colour}", marks=marks))
    metafunc.parametrize("stage", runs, indirect=True)


@pytest.fixture
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """An engine with a fresh store, and a colour."""
    engine: Engine
    colour: Colour
    engine, colour = request.param
    place = engine.place(tmp_path)
    try:
        yield Stage(engine, colour, place)
    finally:
        place.close()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A scenario is a coroutine; it gets a loop of its own, and an end if it should hang."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {
        name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters
    }
    guard = SLOW_HANGS_AFTER if pyfuncitem.get_closest_marker("slow") else HANGS_AFTER

    async def play(stage: Stage) -> None:
        async with stage, asyncio.timeout(guard):
            await pyfuncitem.obj(**arguments)

    stage = pyfuncitem.funcargs["stage"]
    assert isinstance(stage, Stage)
    asyncio.run(play(stage))
    return True
