"""The application, its system check, and the settings of tests."""

import atexit
from typing import Any

from django.apps import AppConfig
from django.core import checks
from django.core.signals import setting_changed

from holdfast.contrib.django import client, from_settings


class HoldfastConfig(AppConfig):  # type: ignore[misc]  # Django has no types
    """`"holdfast.contrib.django"` in `INSTALLED_APPS`."""

    name = "holdfast.contrib.django"
    label = "holdfast"
    verbose_name = "holdfast"

    def ready(self) -> None:
        """Register what is called by Django."""
        checks.register(check_settings)
        setting_changed.connect(forget_client, dispatch_uid="holdfast")


def check_settings(**_: object) -> list[Any]:
    """Whether a client can be made of the settings: nothing is asked of the engine."""
    try:
        made = from_settings()
    except ModuleNotFoundError as error:
        return [checks.Error(f"HOLDFAST: {error}", id="holdfast.E002")]
    except (TypeError, ValueError) as error:
        return [checks.Error(f"HOLDFAST: {error}", id="holdfast.E001")]
    made.close()
    if made.url.startswith("memory:"):
        hint = "use a server, or sqlite:// on one host"
        text = "HOLDFAST: memory:// locks nothing out but threads of the same process"
        return [checks.Warning(text, hint=hint, id="holdfast.W001")]
    return []


def forget_client(*, setting: str, **_: object) -> None:
    """A test has changed the settings."""
    if setting == "HOLDFAST" and client.cache_info().currsize:
        atexit.unregister(client().close)
        client().close()
        client.cache_clear()
