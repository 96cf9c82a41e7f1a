"""Every example works: those of the docstrings, and those of the Markdown pages.

On a page, blocks of Python run in order, as one program. A block with a title is a file; on a page
that has files, blocks of `console` run in a shell, and must print what the page shows.
"""

import ast
import asyncio
import doctest
import importlib
import inspect
import re
from collections.abc import Iterator
from doctest import ELLIPSIS, OutputChecker
from pathlib import Path

import pytest

import holdfast
from tests.equipment.examples import Servers, blocks, is_slow, run_in_shell

from .equipment.django import configure_django

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RECIPES = sorted((ROOT / "docs/recipes").glob("*.md"))
PUNCTUAL = ("celery.md", "cron.md", "web-workers.md")
"""Pages whose programs must start within some seconds of each other: for a machine that is not busy
with other things (`make docs`, `make contract`)."""
LONG = ("migrations.md", "job-queue.md", "operating.md")
"""Pages with many programs, of which there are tests, too."""

NAMES = [name for name in holdfast.__all__ if not name.startswith("_")]
HOMES = {inspect.getmodule(getattr(holdfast, name)) for name in NAMES}
MODULES = sorted(home.__name__ for home in HOMES if home is not None)
CONTRIB = sorted(
    f"holdfast.contrib.{path.stem}"
    for path in (ROOT / "src" / "holdfast" / "contrib").glob("[!_]*")
)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize(
    "module",
    [
        "holdfast",
        "holdfast.events",
        "holdfast.options",
        "holdfast.virtual_time",
        *MODULES,
        *CONTRIB,
    ],
)
def test_docstring_examples(module: str) -> None:
    if module == "holdfast.contrib.django":
        configure_django()
    result = doctest.testmod(importlib.import_module(module), verbose=False)
    assert result.failed == 0
    assert result.attempted > 0


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_an_example(name: str) -> None:
    assert ">>>" in (inspect.getdoc(getattr(holdfast, name)) or "")


def test_every_public_name_is_in_the_reference() -> None:
    text = (ROOT / "docs/reference.md").read_text()
    entries = re.findall(r"^::: holdfast\.(\w+)$", text, re.MULTILINE)
    assert sorted(entries) == sorted([*NAMES, "events"])


def marks_of(page: Path) -> list[pytest.MarkDecorator]:
    marks = [pytest.mark.slow] if is_slow(page) else []
    return [*marks, pytest.mark.full] if page.name in PUNCTUAL + LONG else marks


@pytest.fixture(scope="module")
def running() -> Iterator[Servers]:
    with Servers() as servers:
        yield servers


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=marks_of(page), id=name_of(page)) for page in PAGES if blocks(page)],
)
def test_examples_of_a_page_run_in_order(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, running: Servers
) -> None:
    monkeypatch.setenv("HOLDFAST_URL", f"sqlite://{tmp_path}/locks.db")
    monkeypatch.chdir(tmp_path)
    running.empty()
    names: dict[str, object] = {"__name__": "example"}
    for block in blocks(page):
        text = running.instead_of_those_named(block.text)
        if block.file:
            block.write(tmp_path, text)
        elif block.language == "console":
            printed, expected = run_in_shell(text)
            assert OutputChecker().check_output(expected, printed, ELLIPSIS), printed
        else:
            code = compile(text, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            result = eval(code, names)
            if inspect.iscoroutine(result):  # the block has an `await` at its top level
                asyncio.run(result)


@pytest.mark.parametrize("page", [*RECIPES, ROOT / "docs/migrating.md"], ids=name_of)
def test_no_example_of_a_recipe_is_left_out(page: Path) -> None:
    """Elsewhere, a block of `py` is one that cannot be run by itself."""
    assert "```py\n" not in page.read_text()


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
