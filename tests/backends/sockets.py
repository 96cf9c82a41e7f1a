"""Who is connected to a server."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit


def connections_to(url: str) -> int:
    """How many sockets are connected to the port of a URL: our servers have it alone."""
    port = f":{urlsplit(url).port:04X}"
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(remote.endswith(port) and state == "01" for _, _, remote, state, *_ in lines)
