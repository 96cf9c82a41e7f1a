"""A tiny client for the Redis protocol: one command, one reply, no state."""

import socket
import ssl
from typing import BinaryIO, Self, TypeAlias

from holdfast.lab.servers.process import Refused

Reply: TypeAlias = "str | int | list[Reply] | None"


class Connection:
    """One connection, in RESP2. Waits at most `timeout` seconds for each reply."""

    def __init__(
        self, address: tuple[str, int], timeout: float, tls: ssl.SSLContext | None = None
    ) -> None:
        self._socket = socket.create_connection(address, timeout)
        try:
            if tls is not None:
                self._socket = tls.wrap_socket(self._socket, server_hostname=address[0])
            self._file = self._socket.makefile("rb")
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._file.close()
        self._socket.close()

    def command(self, *words: str | int) -> Reply:
        """Send a command and wait for its reply. An error is raised as `Refused`."""
        parts = [str(word).encode("utf-8", "surrogateescape") for word in words]
        lines = [b"*%d\r\n" % len(parts)]
        lines += [b"$%d\r\n%s\r\n" % (len(part), part) for part in parts]
        self._socket.sendall(b"".join(lines))
        return read_reply(self._file)


def read_reply(file: BinaryIO) -> Reply:
    """The next reply, with errors raised, and bytes as text (`surrogateescape` keeps them)."""
    line = file.readline()
    if not line.endswith(b"\r\n"):
        raise ConnectionError("the server closed the connection")
    kind, rest = line[:1], line[1:-2].decode("utf-8", "surrogateescape")
    match kind:
        case b"+":
            return rest
        case b"-":
            raise Refused(rest)
        case b":":
            return int(rest)
        case b"$":
            return None if rest == "-1" else _read_text(file, int(rest))
        case b"*":
            return None if rest == "-1" else [read_reply(file) for _ in range(int(rest))]
        case _:
            raise ConnectionError(f"not a reply: {line!r}")


def _read_text(file: BinaryIO, length: int) -> str:
    data = file.read(length + 2)
    if len(data) != length + 2:
        raise ConnectionError("the server closed the connection")
    return data[:-2].decode("utf-8", "surrogateescape")
