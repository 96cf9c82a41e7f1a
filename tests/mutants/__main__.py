"""Plant each bug in a copy of the code, and see whether the tests of `make test` find it.

Exit code 0: all were found; 1: some were not, and they are listed; 2: the list itself is wrong (a
bug applies nowhere, or `make test` has none of its tests, or they fail without it).
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stdout
from itertools import takewhile
from pathlib import Path
from queue import SimpleQueue

import pytest

from tests.mutants.mutant import ROOT, DoesNotApply, Mutant
from tests.mutants.planted import PLANTED

COPIED = ("src", "tests", "pyproject.toml", "README.md")
HANGS_AFTER = 300.0
"""A bug that makes the tests hang is found, too."""

FOUND, SURVIVED, WRONG = "found", "SURVIVED", "WRONG"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it, and tell what came of it; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", default="", help="those whose name or file contains this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--check", action="store_true", help="only see whether each applies, and has tests"
    )
    given = parser.parse_args(arguments)
    chosen = [m for m in PLANTED if given.only in m.name or given.only in m.file]
    wrong = list(_wrong(chosen))
    for complaint in wrong:
        print(complaint)
    if given.check or wrong:
        print(f"{len(chosen)} planted bugs, {len(wrong)} do not apply or have no tests")
        return 2 if wrong else 0
    results = _run(chosen, given.jobs)
    survivors = [mutant.name for mutant, result in results if result == SURVIVED]
    failing = [mutant.name for mutant, result in results if result == WRONG]
    print(f"{len(results)} planted bugs, {len(survivors)} survived: {', '.join(survivors) or '-'}")
    if failing:
        print(f"tests that fail without the bug, too: {', '.join(failing)}")
    return 2 if failing else int(bool(survivors))


def _wrong(mutants: Sequence[Mutant]) -> Iterator[str]:
    for mutant in mutants:
        try:
            mutant.check()
        except DoesNotApply as complaint:
            yield str(complaint)
    for killers in {mutant.killers: None for mutant in mutants}:
        if missing := _missing(shlex.split(killers)):
            names = ", ".join(mutant.name for mutant in mutants if mutant.killers == killers)
            yield f"{names}: `make test` has no such tests: {', '.join(missing)} of {killers}"


def _missing(killers: Sequence[str]) -> list[str]:
    """The files of which `make test` has none of these tests."""
    found = _Collected()
    words = ["--collect-only", "-qq", "-p", "no:cacheprovider", *killers]
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        pytest.main([*words, f"--rootdir={ROOT}"], [found])
    files = takewhile(lambda word: not word.startswith("-"), killers)
    return [file for file in files if not any(test.startswith(file) for test in found.tests)]


class _Collected:
    tests: Sequence[str] = ()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.tests = [item.nodeid for item in session.items]


def _run(mutants: Sequence[Mutant], jobs: int) -> list[tuple[Mutant, str]]:
    with _copies(jobs) as copies, ThreadPoolExecutor(jobs) as pool:
        sound: dict[str, bool] = {}

        def is_sound(killers: str) -> None:
            copy = copies.get()
            sound[killers] = not _fails(copy, killers)
            copies.put(copy)

        list(pool.map(is_sound, {mutant.killers: None for mutant in mutants}))

        def judge(mutant: Mutant) -> str:
            if not sound[mutant.killers]:
                return WRONG
            copy = copies.get()
            began = time.monotonic()
            mutant.plant(copy)
            try:
                result = FOUND if _fails(copy, mutant.killers) else SURVIVED
            finally:
                mutant.remove(copy)
                copies.put(copy)
            print(f"{result:8} {time.monotonic() - began:5.1f} s  {mutant.name}", flush=True)
            return result

        return list(zip(mutants, pool.map(judge, mutants), strict=True))


@contextmanager
def _copies(count: int) -> Iterator["SimpleQueue[Path]"]:
    """Copies of the code, in which bugs can be planted one after the other."""
    with tempfile.TemporaryDirectory(prefix="holdfast-mutants-") as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(count):
            copy = Path(folder) / str(number)
            copy.mkdir()
            for name in COPIED:
                source = ROOT / name
                if source.is_dir():
                    shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("*.pyc"))
                else:
                    shutil.copy(source, copy / name)
            copies.put(copy)
        yield copies


def _fails(copy: Path, killers: str) -> bool:
    """Whether any of these tests fails in this copy: those that `make test` has, not `--full`."""
    words = ["-x", "-q", "-p", "no:cacheprovider", "-n", "0", *shlex.split(killers)]
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *words],
        cwd=copy,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        out, _ = process.communicate(timeout=HANGS_AFTER)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return True
    if process.returncode not in (0, 1, 2):  # 2: it cannot even be imported
        raise SystemExit(f"pytest {killers} ended with {process.returncode}:\n{out[-2000:]}")
    return process.returncode != 0


if __name__ == "__main__":
    sys.exit(main())
