"""What the URLs of the servers have in common: hosts, and options."""

from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult

from holdfast.engines import refuse_options

TLS_FILES = ("ca_cert", "cert", "key")

NO_TLS = ("WRONG_VERSION_NUMBER", "record layer failure")
"""What OpenSSL calls an answer that is no TLS."""

CLOSED = ("UNEXPECTED_EOF", "Handshake read failed")
"""What OpenSSL and gRPC call a connection that was closed during the handshake. A server without
TLS does that, and so does a proxy whose server is down."""


def hint_for_tls(error: str, scheme: str) -> str:
    """What to add to an error of a connection with TLS. `scheme`: that without TLS.

    >>> hint_for_tls("[SSL: WRONG_VERSION_NUMBER] wrong version number", "etcd")
    '; the server seems to expect no TLS on this port: try etcd://, not etcds://'
    """
    if any(each in error for each in NO_TLS):
        return (
            f"; the server seems to expect no TLS on this port: try {scheme}://, not {scheme}s://"
        )
    if any(each in error for each in CLOSED):
        return (
            "; it was closed during the TLS handshake: is the server up, and does it have TLS on "
            f"this port? Without TLS, the URL begins with {scheme}://"
        )
    return ""


class Endpoint(NamedTuple):
    """Where a server listens."""

    host: str
    port: int

    @property
    def name(self) -> str:
        """As people write it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read_endpoints(url: SplitResult, port: int) -> list[Endpoint]:
    """The hosts of a URL, which may name several: `h1:p1,h2,[::1]:p3`."""
    _, _, text = url.netloc.rpartition("@")
    several = text.split(",")
    endpoints = []
    for each in several:
        host, colon, digits = each.rpartition(":")
        if not colon or each.endswith("]"):
            host, digits = each, str(port)
        if not digits.isascii() or not digits.isdigit() or not 0 < int(digits) < 65536:
            raise ValueError(f"url: {each!r} has no valid port; write host:port")
        bare = host.removeprefix("[").removesuffix("]")
        if ":" in bare and bare == host:
            raise ValueError(f"url: an IPv6 address is written in brackets, got {each!r}")
        if not bare and len(several) > 1:
            raise ValueError(f"url: one of several hosts is empty in {text!r}")
        endpoints.append(Endpoint(check_host(bare) or "localhost", int(digits)))
    return endpoints


def check_host(name: str) -> str:
    """The name or address of a host, if it can be one."""
    if ":" in name:
        return name  # an IPv6 address, perhaps with the name of an interface
    try:
        name.encode("idna")  # as the resolver will
    except UnicodeError:
        raise ValueError(f"url: {name!r} cannot be the name of a host") from None
    return name.lower()  # so that a host is known again


class Options:
    """The options of a client. Each is taken out when it is read; what is left is refused."""

    def __init__(self, given: dict[str, str]) -> None:
        self._left = dict(given)

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def file(self, name: str) -> str:
        """The path of a file, which must be there."""
        path = self._left.pop(name)
        if not Path(path).is_file():
            raise ValueError(f"{name}: there is no file {path!r}")
        return path

    def tls_files(self, scheme: str, secure: str) -> dict[str, str]:
        """The files that there are of a client with TLS, which has the scheme `secure`."""
        files = {name: self.file(name) for name in TLS_FILES if name in self}
        if files and scheme != secure:
            raise ValueError(f"{next(iter(files))}: is for {secure}://, got {scheme}://")
        if ("cert" in files) != ("key" in files):
            raise ValueError("cert: goes together with key, and neither without the other")
        return files

    def number(self, name: str, default: float, lowest: float, highest: float) -> float:
        """A number of seconds within a range."""
        text = self._left.pop(name, str(default))
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not lowest <= value <= highest:
            raise ValueError(
                f"{name}: must be from {lowest:g} to {highest:g} seconds, got {text!r}"
            )
        return value

    def optional(self, name: str, lowest: float, highest: float) -> float | None:
        """The same; None unless given."""
        return self.number(name, 0.0, lowest, highest) if name in self else None

    def count(self, name: str, default: int, highest: int) -> int:
        """A whole number."""
        text = self._left.pop(name, str(default))
        if not text.isascii() or not text.isdigit() or int(text) > highest:
            raise ValueError(f"{name}: must be a whole number up to {highest}, got {text!r}")
        return int(text)

    def switch(self, name: str, *, default: bool) -> bool:
        """On or off."""
        text = self._left.pop(name, str(default)).lower()
        if text not in ("on", "true", "1", "off", "false", "0"):
            raise ValueError(f"{name}: must be on or off, got {text!r}")
        return text in ("on", "true", "1")

    def choice(self, name: str, *words: str) -> str:
        """One of these words, the first unless given."""
        text = self._left.pop(name, words[0])
        if text not in words:
            raise ValueError(f"{name}: must be {' or '.join(words)}, got {text!r}")
        return text

    def end(self, *names: str) -> None:
        """Refuse what is left. `names`: all options of the engine, to suggest one for a misspelt
        one."""
        refuse_options(self._left, *names)
