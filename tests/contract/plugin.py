"""Runs every scenario over every engine and mode that it can run over.

The engines come from the hook `pytest_holdfast_engines`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from .engine import NEEDS, EngineUnderTest
from .stage import Mode, Stage

HANGS_AFTER = 200.0
"""Seconds: against hanging, not against a busy machine, on which a scenario can take minutes."""


class Hooks:
    """What the plugin asks for."""

    def pytest_holdfast_engines(self) -> list[EngineUnderTest]:
        """The engines to play the contract on: in a conftest.py, a function of this name."""
        raise NotImplementedError


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(Hooks)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes about a second or more, or real processes")
    config.addinivalue_line("markers", "full: more of a scenario that a short run plays in part")
    config.addinivalue_line("markers", "core: depends on the core alone, not on the engine")
    config.addinivalue_line("markers", "turns: a short run plays it on some engines, by turns")
    config.addinivalue_line("markers", "mode(name): a scenario that exists in one mode only")
    config.addinivalue_line(
        "markers", f"needs(*things): what an engine must be able to do, of {', '.join(NEEDS)}"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "stage" not in metafunc.fixturenames:
        return
    config = metafunc.config
    found: list[list[EngineUnderTest]] = config.hook.pytest_holdfast_engines()
    engines = [engine for each in found for engine in each]
    if not engines:
        raise pytest.UsageError(
            "no engine to play the contract on: the hook pytest_holdfast_engines, a function of "
            "this name in a conftest.py, is missing or gives none"
        )
    # Our own test suite has a short run, and the option `--full`.
    full = config.getoption("full", default=True)
    scenario = metafunc.function.__name__.removeprefix("test_")
    needs = tuple(need for mark in metafunc.definition.iter_markers("needs") for need in mark.args)
    modes = [mark.args[0] for mark in metafunc.definition.iter_markers("mode")] or [
        "sync",
        "async",
    ]
    part = metafunc.function.__module__.rpartition(".test_")[2]
    marks_of_it = {mark.name for mark in metafunc.definition.iter_markers()}
    able = [engine for engine in engines if not engine.refusal(scenario, needs)]
    short = short_run(
        able,
        scenario,
        part,
        modes,
        core="core" in marks_of_it,
        turns="turns" in marks_of_it,
        restarts="restart" in needs,
    )
    runs = []
    for engine in engines:
        refusal = engine.refusal(scenario, needs)
        for mode in modes:
            if not full and (engine.name, mode) not in short:
                continue
            marks = [pytest.mark.skip(reason=refusal)] if refusal else []
            if engine.server and config.pluginmanager.hasplugin("xdist"):
                # It takes seconds to start: once for each mode, not for each process.
                marks.append(pytest.mark.xdist_group(f"{engine.server}-{mode}"))
            runs.append(pytest.param((engine, mode), id=f"{engine.name}-{mode}", marks=marks))
    metafunc.parametrize("stage", runs, indirect=True)


def short_run(
    engines: list[EngineUnderTest],
    scenario: str,
    part: str,
    modes: list[str],
    *,
    core: bool,
    turns: bool,
    restarts: bool,
) -> set[tuple[str, str]]:
    """On which engines, and in which modes, a short run plays a scenario. (A full one plays it on
    all that can, in all modes.)

    It is played on each engine that has code of its own, in one mode, by turns. The variants of
    an engine take turns, in the other mode: it is played on one of those that play this part of
    the contract, unless servers are restarted. What has the mark `turns` is played on every third
    engine. On the quick ones everything is played in all modes; what depends on the core alone
    is played nowhere else.
    """
    turn = crc32(scenario.encode())
    play = [engine for engine in engines if not engine.only or part in engine.only]
    chosen = {(engine.name, mode) for engine in play if engine.quick for mode in modes}
    if core and chosen:
        return chosen
    others = [engine for engine in play if not (engine.quick or engine.variant_of)]
    for number, engine in enumerate(others):
        if turns and (turn + number) % 3:
            continue
        one, other = (modes[(turn + number + more) % len(modes)] for more in (0, 1))
        chosen.add((engine.name, one))
        variants = [each.name for each in play if each.variant_of == engine.name and not restarts]
        if variants:
            chosen.add((variants[turn // 2 % len(variants)], other))
    return chosen


@pytest.fixture
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """An engine with a fresh store, and a mode."""
    engine: EngineUnderTest
    mode: Mode
    engine, mode = request.param
    backend = engine.backend(tmp_path)
    try:
        yield Stage(engine, mode, backend)
    finally:
        backend.close()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A scenario is a coroutine; it gets a loop of its own, and an end if it should hang."""
    stage = pyfuncitem.funcargs.get("stage")
    if not isinstance(stage, Stage):
        return None
    arguments = {
        name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters
    }

    async def play(stage: Stage) -> None:
        async with stage, asyncio.timeout(HANGS_AFTER):
            await pyfuncitem.obj(**arguments)

    asyncio.run(play(stage))
    return True
