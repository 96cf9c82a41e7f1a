"""The engine of docs/new-engine.md, installed as another package's."""

import importlib
import os
import sys
import tomllib
from pathlib import Path

from tests.contract import Backend
from tests.equipment.examples import blocks

PAGE = Path(__file__).parent.parent.parent / "docs" / "new-engine.md"


def install(folder: Path) -> None:
    """What pip makes of the page: a module, and the metadata of its distribution."""
    files = {block.file: block.text for block in blocks(PAGE)}
    about = tomllib.loads(files["pyproject.toml"])["project"]
    metadata = folder / f"{about['name'].replace('-', '_')}-{about['version']}.dist-info"
    metadata.mkdir(parents=True)
    (folder / "toy_engine.py").write_text(files["toy_engine.py"])
    head = f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n"
    (metadata / "METADATA").write_text(head)
    groups = about["entry-points"].items()
    lines = [
        line
        for group, points in groups
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")


class ToyBackend(Backend):
    """Its package is installed for one test."""

    url = "toy://contract"

    def __init__(self, folder: Path) -> None:
        self.packages = str(folder / "site-packages")
        install(Path(self.packages))
        sys.path.append(self.packages)
        self.path = os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = f"{self.path}{os.pathsep}{self.packages}"  # for children
        importlib.invalidate_caches()

    def close(self) -> None:
        sys.path.remove(self.packages)
        os.environ["PYTHONPATH"] = self.path
        sys.modules.pop("toy_engine", None)
        importlib.invalidate_caches()
