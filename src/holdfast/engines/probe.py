"""What kind of server answers at an address: for a URL with a wrong port or a wrong scheme.

A server that receives another protocol than its own closes the connection, or waits for the rest of
the message. So it is asked in one protocol after the other, each on a connection of its own. Only
the doctor does that: to some servers each of these connections is a login that failed, and MariaDB
blocks a host that has too many of them.
"""

import re
import socket
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

TIMEOUT = 0.5
"""Seconds that a server has for an answer."""

GIVE_UP_AFTER = 3.0
"""Seconds after which the server is asked no more questions."""


class Kind(NamedTuple):
    """A kind of server: a message to it, and how its answer begins."""

    name: str
    schemes: Sequence[str]
    message: bytes
    answer: bytes


KINDS = (
    Kind(
        "a Redis server",
        ("redis", "rediss", "redlock", "redis+sentinel", "redis+cluster"),
        b"PING\r\n",
        rb"\+PONG|-[A-Z]+ ",
    ),
    Kind(
        "a PostgreSQL server",
        ("postgresql", "postgres"),
        bytes.fromhex("00000008 04d2162f"),  # SSLRequest
        rb"[SN]$",
    ),
    Kind(
        "an etcd server",
        ("etcd", "etcds"),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000 04 00 00000000"),  # SETTINGS
        rb"(?s)\x00..\x04",
    ),
    Kind(
        "a ZooKeeper server",
        ("zookeeper", "zookeepers"),
        b"ruok",
        rb"imok|ruok is not executed",
    ),
    Kind("a web server", (), b"GET / HTTP/1.0\r\n\r\n", rb"HTTP/"),
    Kind(
        "a MariaDB or MySQL server",
        ("mariadb", "mysql"),
        b"",  # it sends a greeting, or an error, to every client
        rb"(?s)..\x00\x00[\x0a\xff]",
    ),
)

SECURE = ("rediss", "etcds", "zookeepers")
"""The schemes with TLS from the first byte on."""


def what_answers(url: str, node: str) -> str:
    """What seems to answer at a node (`host:port`, or more) if that is not what the URL expects:
    "a Redis server with TLS". Empty if it is, or if nothing is known of it."""
    scheme = url.partition(":")[0]
    address = re.match(r"\[?([^\[\]/\s]+?)\]?:(\d+)(/|$)", node)
    if address is None:
        return ""
    expects_tls = scheme in SECURE
    give_up_at = time.monotonic() + GIVE_UP_AFTER
    for tls in (expects_tls, not expects_tls):
        for kind in sorted(KINDS, key=lambda kind: scheme not in kind.schemes):
            if time.monotonic() > give_up_at:
                return ""
            try:
                received = _exchange(address[1], int(address[2]), kind.message, tls=tls)
            except ssl.SSLError:
                break
            except (OSError, ValueError, OverflowError):  # also a name or a port that cannot be
                if not tls:
                    return ""
                break
            found = next((each for each in KINDS if re.match(each.answer, received)), None)
            if found is not None:
                if scheme not in found.schemes:
                    return f"{found.name} with TLS" if tls else found.name
                if tls == expects_tls or (tls and f"{scheme}s" not in SECURE):
                    return ""  # the others have TLS as an option
                return f"{found.name} {'with' if tls else 'without'} TLS"
    return ""


def _exchange(host: str, port: int, message: bytes, *, tls: bool) -> bytes:
    """Send a message, and receive the beginning of the answer; empty if there is none. Raises
    `OSError` if there is no connection."""
    sock = socket.create_connection((host, port), TIMEOUT)
    with sock:
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is secret
            context.set_alpn_protocols(["h2", "http/1.1"])
            sock = context.wrap_socket(sock, server_hostname=host)
        with sock, suppress(OSError):
            sock.sendall(message)
            return sock.recv(1024)
    return b""
