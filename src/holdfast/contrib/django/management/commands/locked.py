"""`manage.py locked NAME -- COMMAND`: run a command of Django while holding a lock."""

import os
import sys
from typing import Any, NoReturn
from urllib.parse import parse_qsl, urlencode

from django.core.management.base import BaseCommand, CommandError, CommandParser

from holdfast.client import Client
from holdfast.contrib.django import settings

PASSED_ON = ("timeout", "ttl", "min-hold", "max-hold")


class Command(BaseCommand):  # type: ignore[misc]  # Django has no types
    """It becomes `holdfast run`, which stops the command in time if the lease is lost."""

    help = "Runs another command of this project while holding a lock: as `holdfast run` does."
    requires_system_checks: list[str] = []  # noqa: RUF012 - the other command has its own

    missing_args_message = "give the name of the lock: locked NAME -- COMMAND [ARG]..."
    _command: tuple[str, ...] = ()

    def run_from_argv(self, argv: list[str]) -> None:
        """What is after `--` is not for this command to parse."""
        end = argv.index("--") if "--" in argv else len(argv)
        self._command = tuple(argv[end + 1 :])
        super().run_from_argv(argv[:end])

    def add_arguments(self, parser: CommandParser) -> None:
        """As `holdfast run`."""
        parser.add_argument("name", help="The name of the lock.")
        parser.add_argument("-n", "--nonblock", action="store_true", help="Exit 75 if it is held.")
        for option in PASSED_ON:
            parser.add_argument(f"--{option}", type=float, metavar="SECONDS")

    def handle(self, *_: object, **options: Any) -> NoReturn:
        """Become `holdfast run`."""
        if not self._command:
            raise CommandError("there is no command to run: locked NAME -- COMMAND [ARG]...")
        passed = ["--label", self._command[0]]
        passed += ["--nonblock"] if options["nonblock"] else []
        for option in PASSED_ON:
            value = options[option.replace("-", "_")]
            passed += [] if value is None else [f"--{option}", str(value)]
        run = [sys.executable, "-m", "holdfast.cli", "run", *passed, "--", options["name"]]
        environment = os.environ | _environment()
        sys.stdout.flush()
        os.execve(sys.executable, [*run, *_manage(), *self._command], environment)  # noqa: S606 - meant


def _manage() -> list[str]:
    """This project's manage.py, or `python -m django`."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return [sys.executable, *(["-m", spec.parent] if spec else [sys.argv[0]])]


def _environment() -> dict[str, str]:
    """The URL with its options: not as an argument, which every user of the host can read."""
    url, options = settings()
    if url is None:
        url = os.environ.get("HOLDFAST_URL") or Client().url  # the file of this user
    place, _, query = url.partition("?")
    texts = dict(parse_qsl(query, keep_blank_values=True))
    for name, value in options.items():
        if name != "hooks" and value is not None:  # hooks are this process's
            texts[name] = ("off", "on")[value] if isinstance(value, bool) else str(value)
    return {"HOLDFAST_URL": f"{place}?{urlencode(texts)}" if texts else url}
