"""The fixtures of the plugin, in a test run of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = """
import pytest

pytest_plugins = ["holdfast.contrib.pytest_plugin"]


@pytest.fixture(scope="session")
def database(holdfast_once, pytestconfig):
    def make():
        with open(pytestconfig.rootpath / "made", "a") as file:
            file.write("made\\n")
        return {"port": 5432}

    return holdfast_once("database", make)
"""

TESTS = """
import asyncio
import pytest


@pytest.mark.parametrize("number", range(8))
def test_database(database, number):
    assert database == {"port": 5432}


@pytest.mark.parametrize("number", range(2))
def test_client(holdfast_client, number):
    with holdfast_client.lock("order:42") as lease:
        assert lease.fence == 1  # each test has a store of its own


def test_async_client(holdfast_async_client, holdfast_client):
    async def main():
        async with holdfast_async_client as client, client.lock("order:42"):
            assert holdfast_client.lock("order:42").acquire(blocking=False) is None

    asyncio.run(main())


def test_one_that_fails_is_tried_again(holdfast_once, request):
    name = f"once-{request.config.getoption('numprocesses', None)}"

    def fail():
        raise OSError

    with pytest.raises(OSError):
        holdfast_once(name, fail)
    assert holdfast_once(name, lambda: [1]) == [1]
    assert holdfast_once(name, fail) == [1]
"""


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["-p", "xdist", "-n", "2", "--dist", "each"]])
def test_once_for_all_workers(options: list[str], tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    tests = TESTS if "-n" not in options else TESTS.partition("def test_one_that_fails")[0]
    (tmp_path / "test_shop.py").write_text(tests)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    runs = 1 if "-n" in options else 2  # a second run makes everything anew
    for _ in range(runs):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *options, str(tmp_path)],
            env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=200,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
    assert (tmp_path / "made").read_text() == "made\n" * runs
