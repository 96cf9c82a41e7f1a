"""Runs the engine's own Lua scripts on virtual servers, with Lua 5.1, as Redis has it.

What a script sees is what Redis shows it: `KEYS`, `ARGV`, `redis.call`, and nothing that it could
keep between two calls. Values cross over as they do on a server: nothing there is `false` in Lua, a
number that goes out as a reply loses its fraction, and a list ends before its first `nil`.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

from holdfast.lab.servers.programs import need_library
from holdfast.lab.simulator.redis.keyspace import Status

Perform: TypeAlias = Callable[[Sequence[bytes]], Any]
"""Carries out one command of a server, and gives its reply."""


class ScriptError(Exception):
    """A script failed; the text is Lua's own."""


class Scripts:
    """One Lua for all virtual servers of this process: a script is over before the next begins."""

    def __init__(self) -> None:
        need_library("lupa", "pip install 'holdfast[lab]'")
        from lupa import lua51

        runtime: Any = lua51.LuaRuntime  # what type checkers know of it is out of date
        lua = runtime(encoding=None, register_eval=False, register_builtins=False)
        sandbox = lua.execute(_read("sandbox.lua"), self._call)
        self._table = lua.table_from
        self._compile, self._run = sandbox[b"compile"], sandbox[b"run"]
        self._error = lua51.LuaError
        self._compiled: dict[bytes, Any] = {}
        self._perform: Perform = _no_server

    def run(self, source: bytes, keys: int, words: Sequence[bytes], perform: Perform) -> Any:
        """Run a script and return its reply. The first `keys` words are KEYS, the rest ARGV."""
        script = self._compiled.get(source)
        try:
            if script is None:
                script = self._compiled[source] = self._compile(source)
            self._perform = perform
            return _reply(self._run(script, keys, *words))
        except self._error as error:
            raise ScriptError(str(error)) from error
        finally:
            self._perform = _no_server

    def _call(self, *words: Any) -> Any:
        """`redis.call`, as a script sees it."""
        for word in words:
            if type(word) is not bytes:
                words = tuple(map(_text, words))
                break
        reply = self._perform(words)
        return reply if type(reply) is bytes or type(reply) is int else self._value(reply)

    def _value(self, reply: Any) -> Any:
        """What a script is given for a reply."""
        if reply is None:
            return False
        if isinstance(reply, Status):
            return self._table({b"ok": reply.text})
        if isinstance(reply, list):
            return self._table(list(map(self._value, reply)))
        return reply


@cache
def scripts() -> Scripts:
    """Made when it is first wanted, and kept."""
    return Scripts()


def _text(word: Any) -> bytes:
    """An argument of `redis.call`, as bytes."""
    if type(word) is bytes:
        return word
    if type(word) is int or type(word) is float:
        return b"%.17g" % word
    raise ScriptError("Lua redis lib command arguments must be strings or integers")


def _reply(value: Any) -> Any:
    """The reply of a server for a script's result."""
    if value is None or value is False:
        return None
    if isinstance(value, bytes):
        return value
    if isinstance(value, int | float):
        return int(value)
    if (text := value[b"ok"]) is not None:
        return text
    replies: list[Any] = []
    while (each := value[len(replies) + 1]) is not None:
        replies.append(_reply(each))
    return replies


def _read(file: str) -> bytes:
    return files("holdfast.lab.simulator.redis").joinpath(file).read_bytes()


def _no_server(words: Sequence[bytes]) -> Any:
    raise ScriptError(f"no script is running: {words!r}")
