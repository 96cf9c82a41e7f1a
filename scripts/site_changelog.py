"""For the site: its changelog is the file of the repository, with the links of a page in `docs`."""

from pathlib import Path
from typing import Any


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """What is shown for a page."""
    if page.file.src_path != "changelog.md":
        return markdown
    return Path("CHANGELOG.md").read_text().replace("](docs/", "](")
