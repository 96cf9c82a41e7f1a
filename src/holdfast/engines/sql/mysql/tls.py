"""How a URL asks for encryption."""

import ssl

FILES = ("ssl_ca", "ssl_cert", "ssl_key")


def read_tls(options: dict[str, str]) -> ssl.SSLContext | None:
    """What `ssl=on`, or the files `ssl_ca`, `ssl_cert` and `ssl_key` ask for; these options are
    taken out. None without them: then nothing is encrypted. The server must prove who it is, by
    the authority of `ssl_ca`, or else by those that the system trusts."""
    is_on = options.pop("ssl", None)
    if is_on not in (None, "on"):
        raise ValueError(f"ssl: must be on, or left out, got {is_on!r}")
    files = {name: options.pop(name) for name in FILES if name in options}
    if not is_on and not files:
        return None
    try:
        context = ssl.create_default_context(cafile=files.get("ssl_ca"))
        if "ssl_cert" in files:
            context.load_cert_chain(files["ssl_cert"], files.get("ssl_key"))
    except OSError as error:  # no such file, or nothing that makes sense in it
        raise ValueError(f"{', '.join(files)}: cannot be read: {error}") from error
    return context
