"""Plain words: what users and newcomers read has technical subjects, and the terms of the field."""

import re
from pathlib import Path

import click
import pytest

from holdfast.cli import Lazy, holdfast

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
LIBRARY = ROOT / "src" / "holdfast"
SOURCES = sorted(
    path
    for folder in (LIBRARY, ROOT / "tests" / "lab", ROOT / "tests" / "contract")
    for path in folder.rglob("*")
    if path.suffix in (".py", ".lua", ".c", ".proto")
)

INSTEAD = {
    r"who(m)?ever": "the client, the holder, the waiter, the caller",
    r"(some|any)(body|one)": "another client, any client",
    r"nobody": "no client, no waiter; or: it is free",
    r"every(body|one)": "all clients, all nodes",
    r"(the )?one who|(those|others|all) who": "the waiter, clients that ...",
    r"for ever": "forever",
    r"so long": "for as long as, for longer; or the number",
    r"at the most|for want of": "at most, because ... is missing",
    r"(give|gives|giving|given|gave)( \w+){0,2} back": "release (a lock), return (a value)",
    r"strikes?|struck": "interrupts, interrupted",
    r"(can|could)(not| not) be asked": "is unreachable",
    r"knows whether": "the outcome is unknown",
    r"(both|other|each|a) colours?": "sync and async, for threads and asyncio",
    r"(server|node)s? (that )?(forgets?|forgot|ha(s|ve) forgotten)": "loses data, has lost it",
    r"(server|node|engine|database|client|master|leader|sentinel)s? "
    r"(says?|said|hears?|heard|tells?|told|has (said|heard|told))": "sends, receives, answers",
    r"errands?|brain": "detached call, core",
}
"""Patterns of words to avoid, and what to write instead."""

AVOID = {re.compile(rf"\b({old})\b", re.IGNORECASE): new for old, new in INSTEAD.items()}


def complaints(text: str) -> list[str]:
    """The words of a text that are to be avoided, each with its surroundings and a better word."""
    flat = re.sub(r'["\'#*`\s]+|--|//', " ", text)
    return [
        f"{found[0]!r} in {flat[max(0, found.start() - 40) : found.end() + 40]!r}: write {new}"
        for pattern, new in AVOID.items()
        for found in pattern.finditer(flat)
    ]


def commands(command: click.Command, context: click.Context) -> list[tuple[str, str]]:
    """The path and the help text of a command, and of all commands below it."""
    found = [(context.command_path, command.get_help(context))]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            lazy = command.get_command(context, name)
            assert isinstance(lazy, Lazy)
            below = lazy.load()
            found += commands(below, click.Context(below, parent=context, info_name=name))
    return found


@pytest.mark.parametrize("text", ["Whoever has it", "given\n  # back", "The node says no"])
def test_old_words_are_found(text: str) -> None:
    assert complaints(text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page: Path) -> None:
    assert complaints(page.read_text()) == []


def test_docstrings_comments_and_messages() -> None:
    found = {str(path.relative_to(ROOT)): complaints(path.read_text()) for path in SOURCES}
    assert {path: each for path, each in found.items() if each} == {}


def test_help_of_every_command() -> None:
    texts = commands(holdfast, click.Context(holdfast, info_name="holdfast"))
    assert len(texts) > 8
    assert {path: complaints(text) for path, text in texts if complaints(text)} == {}
