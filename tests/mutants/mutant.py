"""One planted bug."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


class DoesNotApply(Exception):
    """The code has changed: the place is not there, or more than once."""


@dataclass(frozen=True)
class Mutant:
    """In `file` (below src/holdfast), `old` becomes `new`; `killers` must fail then, as words for
    pytest."""

    name: str
    file: str
    old: str
    new: str
    killers: str

    def check(self, root: Path = ROOT) -> None:
        """Raise unless it applies to exactly one place."""
        text = self._path(root).read_text() if self._path(root).exists() else ""
        found = text.count(self.old)
        if found != 1:
            raise DoesNotApply(f"{self.name}: found {found} times in {self.file}: {self.old!r}")

    def plant(self, root: Path) -> None:
        """Change the code below `root`."""
        self.check(root)
        path = self._path(root)
        path.write_text(path.read_text().replace(self.old, self.new))

    def remove(self, root: Path) -> None:
        """Put back what was there, from this checkout."""
        self._path(root).write_text(self._path(ROOT).read_text())

    def _path(self, root: Path) -> Path:
        return root / "src" / "holdfast" / self.file
