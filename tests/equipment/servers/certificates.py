"""A throw-away authority, and the certificate of a server on the loopback."""

import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from holdfast.lab.servers.process import HOST, required

# All that a strict client looks for, and nothing of what the system's own settings would add.
SETTINGS = f"""\
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
subjectAltName = IP:{HOST}, DNS:localhost
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""


@dataclass(frozen=True, slots=True)
class Certificates:
    """The files of a server's identity: whom to trust, what it shows, and its key."""

    authority: Path
    certificate: Path
    key: Path

    def as_option(self) -> str:
        """What a client's URL needs to trust the server, as the engine of Redis has it."""
        return f"ssl_ca_certs={quote(str(self.authority))}"

    def trust(self) -> ssl.SSLContext:
        """What a client needs to trust the server."""
        return ssl.create_default_context(cafile=self.authority)


def make_certificates(folder: Path) -> Certificates:
    """Make an authority, and a server's certificate for 127.0.0.1 and localhost; good for a day."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings").write_text(SETTINGS)
    certify(folder, "authority")
    certify(folder, "server", "-CA", "authority.pem", "-CAkey", "authority.key")
    return Certificates(folder / "authority.pem", folder / "server.pem", folder / "server.key")


def make_client_certificate(server: Certificates) -> Certificates:
    """A client's certificate, of the authority of that server."""
    folder = server.authority.parent
    settings = SETTINGS.replace("[server]", "[client]").replace("serverAuth", "clientAuth")
    (folder / "settings").write_text(settings)
    certify(folder, "client", "-CA", "authority.pem", "-CAkey", "authority.key")
    return Certificates(server.authority, folder / "client.pem", folder / "client.key")


def certify(folder: Path, name: str, *signed_by: str) -> None:
    command = [find_openssl(), "req", "-x509", "-config", "settings", "-extensions", name]
    command += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc"]
    command += ["-subj", f"/CN=holdfast lab {name}", "-days", "1", *signed_by]
    command += ["-keyout", f"{name}.key", "-out", f"{name}.pem"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def find_openssl() -> str:
    """The path of `openssl`."""
    return required(shutil.which("openssl"), "openssl", "install Debian's package openssl")
