"""What is to be said of the file, for a doctor: see `holdfast doctor`."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from holdfast.core.records import Finding

LITTLE = 50_000_000
"""Bytes."""


def examine(path: Path, ttl: float) -> Iterator[Finding]:
    """What the file system has to say. (A file that cannot be used at all is found by trying.)"""
    folder = path.parent
    if folder.is_dir():
        left = shutil.disk_usage(folder).free
        if left < LITTLE:
            yield Finding(
                "warning",
                str(path),
                f"its disk has {left // 1_000_000} MB left",
                "on a disk that is full no lock can be acquired or renewed",
                "make room",
            )
        if folder.stat().st_mode & 0o002 and not folder.stat().st_mode & 0o1000:
            yield Finding(
                "warning",
                str(path),
                f"every user of this host may delete files in {folder}",
                "if the file is deleted while it is in use, two may hold one lock",
                f"chmod o-w {folder}, or choose a folder of the program's own",
            )
    if path.exists():
        yield Finding(
            "note",
            str(path),
            f"it has {path.stat().st_size // 1000} kB, for one host alone",
            "",
            "",
        )
