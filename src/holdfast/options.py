"""Arguments: read from URLs, checked before anything happens, refused by name and value."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from inspect import iscoroutinefunction
from math import ceil, floor, inf, isfinite
from os import PathLike, fspath
from typing import Any, TypeVar
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit

T = TypeVar("T")

COMMON = ("prefix", "ttl", "retry", "label")
"""The options of every engine."""

LONGEST_NAME = 512
LONGEST_LABEL = 100
LARGEST_COUNT = 1_000_000
DEFAULT_PREFIX = "holdfast:"
DEFAULT_TTL = 30.0
DEFAULT_RETRY = 0.1


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of a client, from its arguments and from its URL."""

    url: SplitResult
    shown: str
    """The URL as it may be shown: without its password."""
    prefix: str
    ttl: float | None
    """None: not given; then the nearest to 30 s that the engine allows."""
    retry: float
    label: str
    """Encoded, as holder ids have it."""
    engine: dict[str, str]
    """The other parameters and arguments: the engine's own."""


def read_options(
    url: str,
    *,
    prefix: str | None,
    ttl: float | None,
    retry: float | None,
    engine: Mapping[str, Any],
    label: str | None = None,
) -> Options:
    """Put arguments and URL parameters together; an argument goes before a parameter."""
    if not url.isprintable():
        raise ValueError("url: must not contain control characters")
    shown = without_password(url)
    try:
        parts = split_url(url)
    except ValueError as error:
        raise ValueError(f"url: {error} in {shown!r}") from None
    if not parts.scheme:
        hint = hint_for_address(shown)
        raise ValueError(
            "url: must begin with a scheme, as in redis://localhost or sqlite:///path/to/file, "
            f"got {shown!r}{hint}"
        )
    if parts.fragment:
        raise ValueError(f"url: a '#' must be written %23, got {shown!r}")
    given: dict[str, str] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if "@" in name:
            raise ValueError("url: a password with ? in it must be percent-encoded")
        if name in given:
            raise ValueError(f"url: {name} is given twice in {shown!r}")
        given[name] = value
    text = given.pop("prefix", DEFAULT_PREFIX)
    ttl_text = given.pop("ttl", None)
    retry_text = given.pop("retry", None)
    label_text = given.pop("label", "")
    return Options(
        url=parts._replace(query=""),
        shown=shown,
        prefix=check_text("prefix", text if prefix is None else prefix),
        ttl=_either(ttl, "ttl", ttl_text, None),
        retry=check_positive("retry", _either(retry, "retry", retry_text, DEFAULT_RETRY)),
        label=check_label(label_text if label is None else label),
        engine=given | {name: _as_text(name, value) for name, value in engine.items()},
    )


def split_url(url: str) -> SplitResult:
    """As `urlsplit`, which does not allow for several hosts in brackets.

    >>> split_url("redlock://h1,[::1]:6380,[::2]/0").netloc
    'h1,[::1]:6380,[::2]'
    """
    scheme, mark, rest = url.partition("://")
    hosts = re.split("[/?#]", rest, maxsplit=1)[0]
    if "," not in hosts:
        return urlsplit(url)
    if "," in hosts.rpartition("@")[0] and hosts.count("@") > 1:
        raise ValueError(
            f"the URL {without_password(url)!r}: name the user and the password once, for all "
            "hosts, as in redlock://user:password@h1,h2,h3 (in a password, @ is written %40, and a "
            "comma %2C)"
        )
    return urlsplit(f"{scheme}{mark}{rest.removeprefix(hosts)}")._replace(netloc=hosts)


_PORTS = {
    "6379": "redis",
    "5432": "postgresql",
    "3306": "mysql",
    "2379": "etcd",
    "2181": "zookeeper",
}


def hint_for_address(url: str) -> str:
    """What may be meant by an address without a scheme; empty if it is none.

    >>> hint_for_address("localhost:6379/0")
    '; did you mean redis://localhost:6379/0?'
    >>> hint_for_address("localhost:7000")
    '; an address needs its scheme, as in redis://localhost:7000'
    """
    address = re.match(r"[^/?#]*:(\d+)(?=$|[/?,])", url)
    if address is None:
        return ""
    if scheme := _PORTS.get(address[1]):
        return f"; did you mean {without_password(f'{scheme}://{url}')}?"
    return f"; an address needs its scheme, as in {without_password(f'redis://{url}')}"


def hint_for_word(word: str, known: Iterable[str], end: str = "") -> str:
    """Which of the known words may be meant, with what follows it; empty if none is like it.

    >>> hint_for_word("max_tll", ["max_ttl", "replicas"])
    '; did you mean max_ttl?'
    """
    from difflib import get_close_matches  # it takes time to import, and few need it

    near = get_close_matches(word, list(known), 1)
    return f"; did you mean {near[0]}{end}?" if near else ""


def without_password(url: str) -> str:
    """The URL, less its passwords. One that should have been percent-encoded may contain anything,
    so it is taken to end with the last `@`.

    >>> without_password("redis://ann:secret@db.example:6379/0?ttl=5")
    'redis://ann@db.example:6379/0?ttl=5'
    """
    scheme, mark, rest = url.partition("://")
    login, at, hosts = rest.rpartition("@")
    if at and not rest.startswith("/"):
        url = scheme + mark + login.partition(":")[0] + at + hosts
    return _PASSWORD.sub(r"\1...", url)


_PASSWORD = re.compile(r"([?&][^=&]*password=)[^&#]*", re.IGNORECASE)


def printable(text: str) -> str:
    """The text with everything escaped that could move a cursor, hide a line or turn text around.

    >>> print(printable("two\\nlines"))
    two\\nlines
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _as_text(name: str, value: Any) -> str:
    """An argument as it would be written in a URL."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, PathLike):
        return str(fspath(value))
    raise TypeError(f"{name}: must be text, a number, or True or False, got {value!r}")


def _either(value: float | None, name: str, text: str | None, default: T) -> float | T:
    if value is not None or text is None:
        return default if value is None else value
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"url: {name} must be a number of seconds, got {text!r}") from None


def check_text(argument: str, value: Any) -> str:
    """Text that every engine can keep: encodable, without NUL."""
    if not isinstance(value, str):
        raise TypeError(f"{argument}: must be text, got {value!r}")
    if "\0" in value:
        raise ValueError(f"{argument}: must not contain a NUL character, got {value!r}")
    return _check_encodable(argument, value)


def check_holder(value: Any) -> str:
    """A holder id as `inspect` shows it. Another program's may have been any bytes."""
    if not isinstance(value, str):
        raise TypeError(f"holder: must be text, got {value!r}")
    return _check_encodable("holder", value, "surrogateescape")


def _check_encodable(argument: str, value: str, errors: str = "strict") -> str:
    try:
        value.encode(errors=errors)
    except UnicodeEncodeError:
        raise ValueError(f"{argument}: must be encodable as UTF-8, got {value!r}") from None
    return value


def check_label(value: Any) -> str:
    """Any text of up to 100 bytes, as holder ids have it: percent-encoded, behind a `+`.

    >>> check_label("blue fleet"), check_label("")
    ('+blue%20fleet', '')
    """
    encoded = quote(check_text("label", value), safe="")
    if len(encoded) > LONGEST_LABEL:
        raise ValueError(
            f"label: must have at most {LONGEST_LABEL} bytes when it is percent-encoded, "
            f"got {len(encoded)} in {value!r}"
        )
    return f"+{encoded}" if encoded else ""


def check_name(value: Any, argument: str = "name") -> str:
    """Any text of 1 to 512 bytes."""
    name = check_text(argument, value)
    size = len(name.encode())
    if not name or size > LONGEST_NAME:
        raise ValueError(
            f"{argument}: must have 1 to {LONGEST_NAME} bytes as UTF-8, got {size} in {name!r}"
        )
    return name


def check_names(values: Any) -> list[str]:
    """At least one name, each once, in order.

    >>> check_names(["b", "a", "b"])
    ['a', 'b']
    """
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"names: must be several names, got {values!r}")
    names = sorted({check_name(each) for each in values})
    if not names:
        raise ValueError("names: must be at least one, got none")
    return names


def check_number(argument: str, value: Any) -> float:
    """A finite number, and not a bool."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{argument}: must be a number of seconds, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = inf
    if not isfinite(number):
        raise ValueError(f"{argument}: must be finite, got {value!r}")
    return number


def check_positive(argument: str, value: Any) -> float:
    """A number greater than zero."""
    number = check_number(argument, value)
    if number <= 0:
        raise ValueError(f"{argument}: must be greater than 0, got {value!r}")
    return number


def check_ttl(value: Any, lowest: float, highest: float, step: float) -> float:
    """A ttl within a range, rounded up to a step."""
    number = check_number("ttl", value)
    if not lowest <= number <= highest:
        raise ValueError(f"ttl: must be from {lowest:g} to {highest:g} seconds, got {value!r}")
    return ceil(number / step) * step if step else number


def check_max_hold(value: Any, least: float) -> float:
    """How long a lease may be held."""
    number = check_positive("max_hold", value)
    if number < least:
        raise ValueError(f"max_hold: must be at least {least:g} seconds, got {value!r}")
    return number


def check_min_hold(value: Any, ttl: float | None, max_hold: float | None) -> float:
    """How long a release waits; `ttl`: that of a lease which is not renewed."""
    number = check_number("min_hold", value)
    limits = {ttl: "ttl, since it is not renewed", max_hold: "max_hold"}
    longest = min((each for each in limits if each is not None), default=inf)
    if not 0 <= number <= longest:
        limit = "" if longest == inf else f", and at most {longest:g}, its {limits[longest]}"
        raise ValueError(f"min_hold: must be 0 or more{limit}; got {value!r}")
    return number


def nearest_ttl(wanted: float, lowest: float, highest: float, step: float) -> float:
    """The ttl nearest to the wanted one that an engine allows.

    >>> nearest_ttl(30.0, 0.01, 4.0, 0.0), nearest_ttl(30.0, 4.0, 29.5, 1.0)
    (4.0, 29.0)
    """
    ttl = min(max(wanted, lowest), highest)
    if step and ceil(ttl / step) * step <= highest:
        return ceil(ttl / step) * step
    return floor(ttl / step) * step if step else ttl


def check_timeout(value: Any) -> float | None:
    """How long to wait: None or -1 is without a limit."""
    if value is None or (isinstance(value, (int, float)) and value in (-1, inf)):
        return None
    number = check_number("timeout", value)
    if number < 0:
        raise ValueError(f"timeout: must be 0 or more, or -1 or None for no limit; got {value!r}")
    return number


def check_value(argument: str, value: Any) -> bytes | str:
    """What a cell can keep: bytes, or text that can be encoded."""
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        what = "give" if argument == "fn" else "be"
        raise TypeError(f"{argument}: must {what} bytes or text, got {value!r}")
    return _check_encodable(argument, value)


def check_version(value: Any) -> int:
    """A version of a cell."""
    return _check_whole("expect", value, 0, 2**63 - 1, "a version as get() gives it")


def check_fence(value: Any) -> int:
    """A fencing token."""
    return _check_whole("fence", value, 1, 2**63 - 1, "a fence as a lease has it")


def check_count(argument: str, value: Any) -> int:
    """A whole number from 1 to a million."""
    return _check_whole(
        argument, value, 1, LARGEST_COUNT, f"a whole number from 1 to {LARGEST_COUNT:,}"
    )


def _check_whole(argument: str, value: Any, lowest: int, highest: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{argument}: must be {what}, got {value!r}")
    if not lowest <= value <= highest:
        raise ValueError(f"{argument}: must be {what}, got {value!r}")
    return value


def check_bool(argument: str, value: Any) -> bool:
    """A plain bool, since a stray positional argument is easily mistaken for one."""
    if not isinstance(value, bool):
        raise TypeError(f"{argument}: must be True or False, got {value!r}")
    return value


def check_hooks(value: Any) -> tuple[Any, ...]:
    """Functions that can be called."""
    if callable(value):
        raise TypeError(f"hooks: must be a list of functions, got {value!r}")
    hooks = tuple(value)
    for hook in hooks:
        if not callable(hook):
            raise TypeError(f"hooks: must be functions, got {hook!r}")
        if iscoroutinefunction(hook):
            raise TypeError(f"hooks: must be plain functions, and not async ones, got {hook!r}")
    return hooks
