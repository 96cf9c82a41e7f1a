"""What `make check` leaves out: the suites that live in real processes, on real files."""

import gc
import os
import re
import signal
from functools import cache
from importlib import import_module
from typing import Any
from zlib import crc32

import pytest

from holdfast.drivers.common import event_log
from tests.contract import EngineUnderTest

pytest_plugins = [
    "pytester",
    "holdfast.contrib.pytest_plugin",
    "tests.contract.plugin",
    "tests.equipment.disturbance",
]

MODE = re.compile(r"\ba?sync\b")
STAGE = re.compile(r"\[(.+?)-(a?sync)\b")
"""On what a scenario of the contract is played, in its name."""


def pytest_configure() -> None:
    """A runner that ignores signals, as a shell does for what it starts in the background, would
    have all tests and their children ignore them too."""
    _keep_grpc_out_of_forks()
    for signum in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTSTP):
        if signal.getsignal(signum) is signal.SIG_IGN:
            usual = signal.default_int_handler if signum == signal.SIGINT else signal.SIG_DFL
            signal.signal(signum, usual)


def _keep_grpc_out_of_forks() -> None:
    """In this process, which forks for some tests and talks to etcd in others: gRPC would stop its
    threads for each fork, write about it, and may hang afterwards. It reads this setting when it is
    imported, and the programs that tests start have it as it comes."""
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    import_module("grpc")
    del os.environ["GRPC_ENABLE_FORK_SUPPORT"]


def pytest_holdfast_engines() -> list[EngineUnderTest]:
    """Those of this repository, for the contract. (Their servers are imported only for it.)"""
    from tests.backends.engines import ENGINES

    return list(ENGINES)


@pytest.fixture(autouse=True)
def _log_anew() -> None:
    """What one test made the library log, another one may expect, too."""
    event_log.reset()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also what takes too long for `make test`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("full"):
        long = {item for item in items if item.get_closest_marker("full")} | out_of_turn(items)
        config.hook.pytest_deselected(items=list(long))
        items[:] = [item for item in items if item not in long]
    for item in items:
        suite = _suite(item.nodeid)
        if suite == "cli" or (suite == "contract" and "memory-" not in item.name):
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Each group of tests goes to one worker. (The mark `xdist_group` would do, but from pytest 9.2
    on pytest-xdist 3.8 does not see it: its issue 1386.)"""
    from xdist.scheduler import LoadScopeScheduling

    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = group
    return scheduler


def group(nodeid: str) -> str:
    """The tests with which it shares servers that are started once; it alone, if there are none."""
    path, suite = nodeid.partition("::")[0], _suite(nodeid)
    if suite in ("engines", "lab"):
        shares = path.split("/")[2] in ("etcd", "sql", "zookeeper")
        return path.rpartition("/")[0] if shares else path
    if suite == "contract" and (stage := STAGE.search(nodeid)):
        engine, mode = stage.groups()
        if server := _servers().get(engine):
            return f"{server}-{mode}"
    return nodeid


def _suite(nodeid: str) -> str:
    """`contract`, of `tests/contract/test_basic.py::...`; of text, for it is asked of 8,000."""
    folders = nodeid.partition("::")[0].split("/")
    return folders[1] if len(folders) > 2 else ""


@cache
def _servers() -> dict[str, str]:
    return {engine.name: engine.server for engine in pytest_holdfast_engines()}


def out_of_turn(items: list[pytest.Item]) -> set[pytest.Item]:
    """Of the tests of an engine that are there sync and async, one of the two, by turns: what a
    short run leaves out. (That of the contract has a rule of its own.)"""
    twins: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.nodeid.startswith("tests/engines/") and "mode" in _parameters(item):
            twins.setdefault(MODE.sub("", item.nodeid), []).append(item)
    return {pair[crc32(name.encode()) % 2] for name, pair in twins.items() if len(pair) == 2}


def _parameters(item: pytest.Item) -> dict[str, object]:
    callspec = getattr(item, "callspec", None)
    return callspec.params if callspec is not None else {}


def pytest_collection_finish() -> None:
    """The tests themselves stay to the end. To look through them for garbage takes longer than some
    leases last, and meanwhile no thread runs."""
    gc.collect()
    gc.freeze()
