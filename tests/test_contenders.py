"""Contenders in the benchmarks: each in a process of its own, with nobody else's libraries."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path

import pytest

from benchmarks.contenders import AsyncPair, Openings, Pair, compare, library, start

pytestmark = pytest.mark.slow


def writes(path: Path, stack: ExitStack) -> Pair:
    stack.callback(partial(_write, path, "closed "))
    return partial(_write, path, "pair ")


async def writes_by_tasks(path: Path, tasks: int, stack: AsyncExitStack) -> Sequence[AsyncPair]:
    async def pair(number: int) -> None:
        _write(path, f"{number} ")
        await asyncio.sleep(0)

    stack.callback(partial(_write, path, "closed "))
    return [partial(pair, number) for number in range(tasks)]


def _write(path: Path, word: str) -> None:
    with path.open("a") as file:
        file.write(word)


def is_alone(stack: ExitStack) -> Pair:
    def look() -> None:
        assert "benchmarks.cases" not in sys.modules
        assert "redis" not in sys.modules

    return look


def is_not_there(stack: ExitStack) -> Pair:
    library("nobody_has_this")
    return lambda: None


def fails(stack: ExitStack) -> Pair:
    return lambda: [][0]


@pytest.mark.full
def test_each_does_its_batches_and_is_closed(tmp_path: Path) -> None:
    thread, tasks = tmp_path / "thread", tmp_path / "tasks"
    openings: Openings = {
        "thread": partial(writes, thread),
        "tasks": partial(writes_by_tasks, tasks, 2),
    }
    values = compare(openings, times=3, rounds=1)
    assert all(seconds > 0 for measured in values.values() for seconds in measured)
    assert {label: len(measured) for label, measured in values.items()} == {"thread": 1, "tasks": 1}
    # One batch more than is measured: the first one of each warms up.
    assert thread.read_text().split() == ["pair"] * 6 + ["closed"]
    assert tasks.read_text().split() == ["0", "1"] * 6 + ["closed"]


@pytest.mark.full
def test_nobody_has_what_another_one_needs() -> None:
    import benchmarks.cases  # which has it all; and this file is imported there, too

    assert benchmarks.cases.CASES
    assert compare({"alone": is_alone}, times=1, rounds=1)["alone"]


def test_a_peer_that_is_not_installed_has_no_figures() -> None:
    assert list(compare({"a": is_not_there, "b": is_alone}, times=1, rounds=1)) == ["b"]


def test_what_goes_wrong_is_told() -> None:
    with pytest.raises(RuntimeError, match="IndexError: list index out of range"):
        compare({"a": fails}, times=1, rounds=1)
    with ExitStack() as stack:
        worker = start({"a": fails}, 1, stack)["a"]
        worker.tell("go")
        assert worker.answer().startswith("raised IndexError")
