"""TLS: whom to trust, and what to show."""

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

FILES = ("ca_cert", "cert", "key")


@dataclass(frozen=True, slots=True)
class Security:
    """The files of a client. They are read for each connection, so they can be replaced."""

    ca_cert: str = ""
    """The authorities to trust; empty for those that the system trusts."""
    cert: str = ""
    """A certificate to show, and those that vouch for it; empty for none."""
    key: str = ""

    def secure(self, line: socket.socket, host: str) -> ssl.SSLSocket:
        """Agree on keys with a server, which must be who it says it is."""
        return self._context().wrap_socket(line, server_hostname=host)

    def check(self) -> None:
        """Raise a `ValueError` if one of the files is of no use."""
        files = {"ca_cert": self.ca_cert, "cert": self.cert, "key": self.key}
        for name, file in files.items():
            if file and not Path(file).is_file():
                raise ValueError(f"{name}: there is no file {file!r}")
        try:
            self._context()
        except OSError as error:
            shown = " and ".join(f"{name}={file}" for name, file in files.items() if file)
            raise ValueError(f"{shown}: cannot be used, {error}") from error

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca_cert or None)
        if self.cert:
            # A key that is encrypted is an error: nobody is to be asked for its password.
            context.load_cert_chain(self.cert, self.key, password=b"")
        return context


def read_security(scheme: str, options: dict[str, str]) -> Security | None:
    """What a URL says of it, taken out of its options; None for a connection in the clear."""
    files = {name: options.pop(name) for name in FILES if name in options}
    if scheme != "zookeepers":
        if files:
            raise ValueError(f"{next(iter(files))}: is for zookeepers://, got {scheme}://")
        return None
    if ("cert" in files) != ("key" in files):
        raise ValueError("cert: goes together with key, and neither without the other")
    security = Security(**files)
    security.check()
    return security
