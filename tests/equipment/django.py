"""Django's settings: one for the process, so that every test makes do with them."""

import django
from django.conf import settings


def configure_django() -> None:
    if not settings.configured:
        settings.configure(
            DATABASES={}, LOGGING_CONFIG=None, INSTALLED_APPS=["holdfast.contrib.django"]
        )
        django.setup()
