"""The contract as the authors of other engines run it: from the wheel, as docs/new-engine.md says.

`make dist` does it with the wheel itself, and plays all scenarios.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from tests.backends.toy import PAGE, install
from tests.equipment.examples import blocks

ROOT = Path(__file__).parents[2]
GROWING = "row.fence + 1"


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """What pip installs: holdfast as the wheel has it, and the engine."""
    folder = tmp_path / "site-packages"
    shutil.copytree(Path(holdfast.__file__).parent, folder / "holdfast")
    shutil.copytree(ROOT / "tests/contract", folder / "holdfast/contract")
    install(folder)
    return folder


def play(packages: Path, folder: Path, scenarios: str) -> str:
    for block in blocks(PAGE):
        if block.file in ("conftest.py", "test_contract.py"):
            block.write(folder, block.text)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", scenarios]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        command,
        env=environment | {"PYTHONPATH": str(packages), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=200,
    )
    return done.stdout


@pytest.mark.slow
def test_the_engine_of_the_page_passes(packages: Path, tmp_path: Path) -> None:
    said = play(packages, tmp_path / "toy", "fences_rise_however or bad_names or a_killed_waiter")
    assert re.search(r"= \d+ passed, \d+ skipped, \d+ deselected", said), said


@pytest.mark.slow
def test_an_engine_whose_fences_stay_the_same_fails(packages: Path, tmp_path: Path) -> None:
    module = packages / "toy_engine.py"
    text = module.read_text()
    assert GROWING in text
    module.write_text(text.replace(GROWING, "1"))
    said = play(packages, tmp_path / "toy", "fences_rise_however_a_lease_ends")
    assert "2 failed" in said, said
