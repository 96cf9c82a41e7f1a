"""The options of the Redis engine: parameters of its URLs, or arguments of a client."""

from pathlib import Path

from holdfast.engines import refuse_options
from holdfast.engines.redis.addresses import Settings

FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")

NAMES = (
    *("client_name", "db", "fence_keep", "max_ttl", "node_timeout", "protocol", "replicas"),
    *("restart_guard", "sentinel_password", "sentinel_username", "ssl_cert_reqs"),
    *("ssl_check_hostname", *FILES),
)
"""All of them, to suggest one for a misspelt one."""

MOST_DATABASES = 10**6


class Options:
    """The options of a client. Each is taken out when it is read; what is left is refused."""

    def __init__(self, given: dict[str, str]) -> None:
        self._left = dict(given)

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def connection(self) -> Settings:
        """The name of the connections, for redis-py."""
        name = self._left.pop("client_name", "")
        if any(not "!" <= letter <= "~" for letter in name):
            raise ValueError(f"client_name: must be ASCII without spaces, got {name!r}")
        return {"client_name": name} if name else {}

    def security(self, encrypted: bool) -> Settings:
        """The settings of TLS for redis-py; none unless `encrypted`, or an option needs them."""
        words: Settings = {name: self._file(name) for name in FILES if name in self._left}
        if "ssl_cert_reqs" in self._left:
            words["ssl_cert_reqs"] = self.choice("ssl_cert_reqs", "required", "optional", "none")
        if encrypted or words or "ssl_check_hostname" in self._left:
            words["ssl_check_hostname"] = self.switch("ssl_check_hostname", default=True)
        return words

    def sentinel_login(self) -> Settings:
        """How to log in at sentinels, which have users of their own."""
        words = ("username", "password")
        given = {word: self._left.pop(f"sentinel_{word}", "") for word in words}
        return {word: value for word, value in given.items() if value}

    def database(self) -> int:
        """The number of a database."""
        return self.count("db", 0, MOST_DATABASES)

    def _file(self, name: str) -> str:
        path = self._left.pop(name)
        if not Path(path).is_file():
            raise ValueError(f"{name}: there is no file {path!r}")
        return path

    def number(self, name: str, default: float, lowest: float, highest: float) -> float:
        """A number within a range."""
        text = self._left.pop(name, str(default))
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not lowest <= value <= highest:
            raise ValueError(f"{name}: must be from {lowest:g} to {highest:g}, got {text!r}")
        return value

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

    def end(self) -> None:
        """Refuse what is left."""
        refuse_options(self._left, *NAMES)
