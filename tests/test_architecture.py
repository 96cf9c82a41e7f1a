"""The layout shows the architecture: who may import whom, and what the core may not touch."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast

SOURCE = Path(__file__).parent.parent / "src" / "holdfast"

# cli -> ui, lab; these and contrib -> client -> drivers, engines -> core; leaves may be imported
# by anybody.
LEAVES = {"_version", "errors", "events", "options"}
FACADE = {
    "blocks",
    "breaking",
    "cell",
    "client",
    "diagnosis",
    "election",
    "latch",
    "fence",
    "lease",
    "lock",
    "lock_all",
    "monitor",
    "schema",
    "skip",
    "virtual_time",
}
MAY_IMPORT = {
    "core": {"core"} | LEAVES,
    "drivers": {"drivers", "core"} | LEAVES,
    "engines": {"engines", "core"} | LEAVES,
    "facade": FACADE | {"drivers", "engines", "core"} | LEAVES,
    "lab": {"lab", "engines", "core", "holdfast"} | FACADE | LEAVES,
    "contrib": {"contrib"} | FACADE | LEAVES,
    "ui": {"ui", "core"} | FACADE | LEAVES,
    "cli": {"cli", "lab", "ui", "holdfast"} | FACADE | LEAVES,
    "leaf": set[str](),
}

# What computes and does nothing else. Everything with I/O, time, randomness or concurrency is out.
PURE = {
    "collections", "contextlib", "dataclasses", "enum", "functools", "heapq", "itertools",
    "json", "math", "operator", "re", "types", "typing", "urllib.parse", "weakref",
}  # fmt: skip


def layer(module: str) -> str:
    head = module.partition(".")[0]
    if head in LEAVES:
        return "leaf"
    return "facade" if head in FACADE else head


def imports(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            if node.module == "holdfast":
                yield from (f"holdfast.{alias.name}" for alias in node.names)
            else:
                yield node.module or ""


def violations(module: str, source: str) -> list[str]:
    """What a module (`core.acquire`) imports that it must not."""
    found = []
    for name in imports(source):
        top, _, rest = name.partition(".")
        if top == "holdfast":
            target = rest.partition(".")[0] or "holdfast"
            if target[0].isupper():
                target = "holdfast"  # `from holdfast import Client`
            if target not in MAY_IMPORT[layer(module)]:
                found.append(name)
        elif layer(module) == "core" and top not in PURE and name not in PURE:
            found.append(name)
    return found


MODULES = sorted(
    ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    for path in SOURCE.rglob("*.py")
    if path != SOURCE / "__init__.py"
)


def source(module: str) -> str:
    return SOURCE.joinpath(*module.split(".")).with_suffix(".py").read_text()


def test_imports_follow_the_arrows() -> None:
    found = {module: violations(module, source(module)) for module in MODULES}
    assert {module: names for module, names in found.items() if names} == {}


def test_no_module_imports_itself_in_a_circle() -> None:
    pending = {module: {*imported_modules(module)} - {module} for module in MODULES}
    while free := [module for module, needed in pending.items() if not needed & {*pending}]:
        for module in free:
            del pending[module]
    assert pending == {}


def imported_modules(module: str) -> Iterator[str]:
    """Which of our modules a module imports, in whatever way."""
    for node in ast.walk(ast.parse(source(module))):
        if isinstance(node, ast.Import):
            yield from (alias.name.removeprefix("holdfast.") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            origin = node.module.removeprefix("holdfast").removeprefix(".")
            for alias in node.names:
                names = (f"{origin}.{alias.name}", origin, f"{origin}.__init__")
                yield from [name for name in names if name in MODULES][:1]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("core.acquire", "import time"),
        ("core.acquire", "from asyncio import sleep"),
        ("core.acquire", "import random"),
        ("core.acquire", "def f():\n    import socket"),
        ("core.acquire", "from holdfast.drivers import threads"),
        ("drivers.aio", "from holdfast.engines.memory import Table"),
        ("engines.memory", "from holdfast.drivers.common import clock"),
        ("engines.memory", "import holdfast.client"),
        ("client", "from holdfast.lab.history import History"),
        ("errors", "from holdfast.core import effects"),
        ("client", "from holdfast.contrib import fastapi"),
        ("contrib.fastapi", "from holdfast.drivers.aio import AsyncDriver"),
    ],
)
def test_a_forbidden_import_is_found(module: str, source: str) -> None:
    assert violations(module, source)


def test_import_holdfast_imports_no_engine_and_no_asyncio() -> None:
    code = "import sys, holdfast; holdfast.Client; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(out.stdout.split())
    assert "holdfast.client" in loaded
    assert not loaded & {"asyncio", "sqlite3", "click", "holdfast.drivers.aio", "holdfast.fence"}
    assert not any(name.startswith("holdfast.engines.") for name in loaded)


@pytest.mark.parametrize("module", ["run", "elect", "operate"])
def test_the_help_of_a_command_imports_no_client(module: str) -> None:
    code = f"import sys, holdfast.cli.{module}; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "holdfast.client" not in out.stdout.split()


def test_fence_and_schema_need_no_import_of_their_own() -> None:
    code = "import holdfast; holdfast.fence.check, holdfast.fence.acheck, holdfast.schema.ddl"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_has_a_home() -> None:
    for name in holdfast.__all__:
        assert getattr(holdfast, name) is not None
    with pytest.raises(AttributeError, match="Locke"):
        getattr(holdfast, "Locke")  # noqa: B009 - as an attribute, mypy knows better


def test_the_map_names_every_module() -> None:
    """That of CONTRIBUTING.md, of what a newcomer has to find: all but the outer layers."""
    contributing = (SOURCE.parent.parent / "CONTRIBUTING.md").read_text()
    the_map = contributing.partition("## The map")[2].partition("\n## ")[0]
    inner = [SOURCE.glob("*.py")]
    inner += [(SOURCE / each).rglob("*.py") for each in ("core", "drivers", "engines")]
    names = {path.name for paths in inner for path in paths if not path.name.startswith("_")}
    missing = {name for name in names if not re.search(rf"\b{name[:-3]}(\.py)?\b", the_map)}
    assert missing == set()
