"""Free ports of the loopback."""

import contextlib
import secrets
import socket
from pathlib import Path

HOST = "127.0.0.1"
LOWEST = 10_000


def free_port() -> int:
    """A port that nobody listens on. It may be taken before it is used: be ready to try again.

    It lies below those that the system gives to outgoing connections: up there, a client that
    knocks at the port of a dead server may take that port itself, and even connect to itself.
    """
    highest = _first_outgoing_port()
    while True:
        number = LOWEST + secrets.randbelow(highest - LOWEST) if highest > 2 * LOWEST else 0
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, number))
            port: int = probe.getsockname()[1]
            return port


def _first_outgoing_port() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        return 32_768
