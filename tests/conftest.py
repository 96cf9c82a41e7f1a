"""What `make check` leaves out: the suites that live in real processes, on real files."""

import gc
import re
import signal
from zlib import crc32

import pytest

from holdfast.drivers.common import log
from tests.contract import EngineUnderTest

pytest_plugins = [
    "pytester",
    "holdfast.contrib.pytest_plugin",
    "tests.contract.plugin",
    "tests.equipment.set_clock",
]

MODE = re.compile(r"\ba?sync\b")


def pytest_configure() -> None:
    """A runner that ignores signals, as a shell does for what it starts in the background, would
    have all tests and their children ignore them too."""
    for signum in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTSTP):
        if signal.getsignal(signum) is signal.SIG_IGN:
            usual = signal.default_int_handler if signum == signal.SIGINT else signal.SIG_DFL
            signal.signal(signum, usual)


def pytest_holdfast_engines() -> list[EngineUnderTest]:
    """Those of this repository, for the contract. (Their servers are imported only for it.)"""
    from tests.backends.engines import ENGINES

    return list(ENGINES)


@pytest.fixture(autouse=True)
def _log_anew() -> None:
    """What one test made the library log, another one may expect, too."""
    log.reset()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also what takes too long for `make test`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("full"):
        long = {item for item in items if item.get_closest_marker("full")} | out_of_turn(items)
        config.hook.pytest_deselected(items=list(long))
        items[:] = [item for item in items if item not in long]
    for item in items:
        path = item.nodeid.partition("::")[0]  # of text, which is quicker than of 8,000 Paths
        suite, folder = path.split("/")[1:3] if path.count("/") > 1 else (path, "")
        if suite in ("engines", "lab"):  # so that their servers are started once
            group = f"{suite}/{folder}" if folder in ("etcd", "sql", "zookeeper") else path
            item.add_marker(pytest.mark.xdist_group(group))
        if suite == "cli" or (suite == "contract" and "memory-" not in item.name):
            item.add_marker(pytest.mark.slow)


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
