"""Django: one client for each process, `manage.py locked`, and a system check.

In settings.py, add `"holdfast.contrib.django"` to `INSTALLED_APPS`, and say where the locks are:

>>> from django.conf import settings
>>> settings.HOLDFAST = {"URL": "memory://django-example", "OPTIONS": {"ttl": 10}}

Then, in views, tasks and commands:

>>> from holdfast.contrib.django import client
>>> with client().lock("invoice:42") as lease:
...     lease.fence, lease.ttl
(1, 10.0)
"""

import atexit
import functools
from typing import Any

from holdfast.client import Client

__all__ = ["client"]


@functools.cache
def client() -> Client:
    """The client of this process, made on first use and closed at its end. A process that a server
    forks has its own connections, even if the client was used before the fork."""
    made = from_settings()
    atexit.register(made.close)
    return made


def from_settings() -> Client:
    """A client as the setting `HOLDFAST` describes it. Nothing is asked of the engine yet."""
    url, options = settings()
    return Client(url, **options)


def settings() -> tuple[str | None, dict[str, Any]]:
    """The URL, None if it is not given, and the options."""
    from django.conf import settings

    given = getattr(settings, "HOLDFAST", {})
    if not isinstance(given, dict) or not isinstance(given.get("OPTIONS", {}), dict):
        raise TypeError('must be a dict, as {"URL": "redis://localhost", "OPTIONS": {"ttl": 10}}')
    unknown = [str(key) for key in given if key not in ("URL", "OPTIONS")]
    if unknown:
        raise ValueError(f"has URL and OPTIONS, and no {', '.join(unknown)}")
    return given.get("URL"), given.get("OPTIONS", {})
