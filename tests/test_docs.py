"""Every example works: those of the docstrings, and those of the Markdown pages."""

import ast
import asyncio
import doctest
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.lab.servers.redis import RedisServer

from .equipment.django import configure_django

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [name for name in holdfast.__all__ if not name.startswith("_")]
HOMES = {inspect.getmodule(getattr(holdfast, name)) for name in NAMES}
MODULES = sorted(home.__name__ for home in HOMES if home is not None)
CONTRIB = sorted(
    f"holdfast.contrib.{path.stem}"
    for path in (ROOT / "src" / "holdfast" / "contrib").glob("[!_]*")
)


@pytest.mark.parametrize("module", ["holdfast", "holdfast.options", *MODULES, *CONTRIB])
def test_docstring_examples(module: str) -> None:
    if module == "holdfast.contrib.django":
        configure_django()
    result = doctest.testmod(importlib.import_module(module), verbose=False)
    assert result.failed == 0
    assert result.attempted > 0


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_an_example(name: str) -> None:
    assert ">>>" in (inspect.getdoc(getattr(holdfast, name)) or "")


REDIS = "redis://localhost:6379"
"""In examples; the tests have a server elsewhere."""


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    with RedisServer() as server:
        yield server.url


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if python_blocks(page)], ids=lambda p: p.name
)
def test_python_examples_of_a_page_run_in_order(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("HOLDFAST_URL", f"sqlite://{tmp_path}/locks.db")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "example"}
    for block in python_blocks(page):
        text = (
            block.replace(REDIS, request.getfixturevalue("redis_url")) if REDIS in block else block
        )
        code = compile(text, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(code, names)
        if inspect.iscoroutine(result):  # the block has an `await` at its top level
            asyncio.run(result)


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
