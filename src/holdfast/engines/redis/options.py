"""The options of the Redis engine: parameters of its URLs, or arguments of a client."""

from holdfast.engines.redis.addresses import Settings

CONNECTION_WORDS = ("client_name", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs")
"""Options that are redis-py's, and handed to it as they are."""


class Options:
    """Options are taken out one by one; what nobody took is refused."""

    def __init__(self, given: dict[str, str]) -> None:
        self._left = dict(given)

    def connection(self) -> Settings:
        """What redis-py is to be told."""
        words: Settings = {
            name: self._left.pop(name) for name in CONNECTION_WORDS if name in self._left
        }
        if "ssl_check_hostname" in self._left:
            words["ssl_check_hostname"] = self.switch("ssl_check_hostname", default=True)
        return words

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
        for name, value in self._left.items():
            raise ValueError(f"url: unknown option {name}={value!r}")
