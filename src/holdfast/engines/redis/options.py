"""The options of the Redis engine: parameters of its URLs, or arguments of a client."""

from urllib.parse import SplitResult, unquote

from holdfast.engines.redis.addresses import Settings
from holdfast.engines.urls import Options

FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")

NAMES = (
    *("client_name", "db", "fence_keep", "max_ttl", "node_timeout", "protocol", "replicas"),
    *("restart_guard", "sentinel_password", "sentinel_username", "ssl_cert_reqs"),
    *("ssl_check_hostname", *FILES),
)
"""All of them, to suggest one for a misspelt one."""

MOST_DATABASES = 10**6


class RedisOptions(Options):
    """The options of a client."""

    def connection(self) -> Settings:
        """The name of the connections, for redis-py."""
        name = self._left.pop("client_name", "")
        if any(not "!" <= letter <= "~" for letter in name):
            raise ValueError(f"client_name: must be ASCII without spaces, got {name!r}")
        return {"client_name": name} if name else {}

    def security(self, encrypted: bool) -> Settings:
        """The settings of TLS for redis-py; none unless `encrypted`, or an option needs them."""
        words: Settings = {name: self.file(name) for name in FILES if name in self}
        if "ssl_cert_reqs" in self:
            words["ssl_cert_reqs"] = self.choice("ssl_cert_reqs", "required", "optional", "none")
        if encrypted or words or "ssl_check_hostname" in self:
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

    def end(self, *names: str) -> None:
        """Refuse what is left."""
        super().end(*NAMES, *names)


def read_login(url: SplitResult) -> Settings:
    """User name and password."""
    login, _, _ = url.netloc.rpartition("@")
    user, _, password = login.partition(":")
    found = {"username": unquote(user), "password": unquote(password)}
    return {name: value for name, value in found.items() if value}
