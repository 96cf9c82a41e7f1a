"""What `pyproject.toml` claims. `make dist` builds the archives, and tries them."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_python_that_is_claimed_is_tested_where_it_is_installed() -> None:
    claimed = re.findall(r"Python :: (3\.\d+)", str(PROJECT["project"]["classifiers"]))
    [others] = re.findall(r"^OTHERS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    oldest = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert claimed == [oldest, *others.split()]
    assert f"tested on Linux with Python {claimed[0]} to {claimed[-1]}" in (
        ROOT / "README.md"
    ).read_text().replace("\n", " ")


def test_the_source_archive_takes_nothing_from_other_folders() -> None:
    """As from the virtual environment of a user, in the clone."""
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert all(pattern.startswith("/") and (ROOT / pattern[1:]).exists() for pattern in included)


def test_a_release_without_addresses_is_not_silent() -> None:
    if "urls" not in PROJECT["project"]:
        assert "[project.urls] is missing" in (ROOT / "scripts" / "dist").read_text()
        _, _, steps = (ROOT / "CONTRIBUTING.md").read_text().partition("## Releasing")
        assert "[project.urls]" in steps
        assert "SECURITY.md" in steps
