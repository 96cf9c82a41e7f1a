"""A project of Django: its client, its check, and its command."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

import holdfast
from holdfast.contrib.django import client
from tests.children import in_child
from tests.equipment.django import configure_django

configure_django()


def test_one_client_until_the_settings_change() -> None:
    with override_settings(HOLDFAST={"URL": "memory://django-one", "OPTIONS": {"prefix": "shop:"}}):
        first = client()
        assert client() is first
        assert first.lock("a").ttl == 30
    with override_settings(HOLDFAST={"URL": "memory://django-one?ttl=5"}):
        assert first.closed
        assert client().lock("a").ttl == 5


def test_without_a_setting_the_environment_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_URL", "memory://django-environment")
    with override_settings(HOLDFAST={}):
        assert client().url == "memory://django-environment"


def test_a_forked_process_has_locks_of_its_own(tmp_path: Path) -> None:
    with override_settings(HOLDFAST={"URL": f"sqlite://{tmp_path}/locks.db"}):
        lease = client().lock("a").acquire()
        assert lease is not None

        def child() -> None:
            assert client().lock("a").acquire(blocking=False) is None
            with client().lock("b") as other:
                assert other.held

        in_child(child)
        lease.release()


@pytest.mark.parametrize(
    ("setting", "id_", "text"),
    [
        ({"URL": "reddis://localhost"}, "holdfast.E001", "there is no engine for 'reddis'"),
        ({"URL": "sqlite:///x", "OPTIONS": {"ttl": -1}}, "holdfast.E001", "ttl: "),
        ({"URL": "sqlite:///x", "OPTIONS": {"mode": 1}}, "holdfast.E001", "mode: "),
        ({"Url": "sqlite:///x"}, "holdfast.E001", "no Url"),
        ("redis://localhost", "holdfast.E001", "must be a dict"),
        ({"URL": "memory://"}, "holdfast.W001", "the same process"),
    ],
)
def test_the_system_check_names_what_is_wrong(setting: Any, id_: str, text: str) -> None:
    from holdfast.contrib.django.apps import check_settings

    with override_settings(HOLDFAST=setting):
        (found,) = check_settings()
        assert found.id == id_
        assert text in found.msg


def test_the_system_check_names_a_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.contrib.django.apps import check_settings

    for module in [name for name in sys.modules if name.startswith("holdfast.engines.etcd")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "grpc", None)
    with override_settings(HOLDFAST={"URL": "etcd://localhost"}):
        (found,) = check_settings()
        assert found.id == "holdfast.E002"
        assert "holdfast[etcd]" in found.msg


SETTINGS = """
SECRET_KEY = "secret"
INSTALLED_APPS = ["holdfast.contrib.django"]
HOLDFAST = {{"URL": "sqlite://{folder}/locks.db", "OPTIONS": {{"ttl": 20, "hooks": [id]}}}}
"""


MANAGE = """
import os, sys
from django.core.management import execute_from_command_line
os.environ["DJANGO_SETTINGS_MODULE"] = "project_settings"
execute_from_command_line(sys.argv)
"""

SHOW = """
import os
from holdfast.contrib.django import client
info = client().inspect("nightly")
print(info.fence == int(os.environ["HOLDFAST_FENCE"]), client().lock("a").ttl)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project_settings.py").write_text(SETTINGS.format(folder=tmp_path))
    (tmp_path / "manage.py").write_text(MANAGE)
    return tmp_path


def manage(project: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(project / "manage.py"), *words]
    environment = {k: v for k, v in os.environ.items() if k != "HOLDFAST_URL"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.slow
def test_a_command_of_the_project_runs_under_the_lock(project: Path) -> None:
    done = manage(project, "locked", "nightly", "--", "shell", "-v", "0", "-c", SHOW)
    assert (done.stdout, done.returncode) == ("True 20.0\n", 0), done.stderr


@pytest.mark.slow
def test_a_command_is_left_out_while_another_has_the_lock(project: Path) -> None:
    with holdfast.Client(f"sqlite://{project}/locks.db") as other, other.lock("nightly"):
        done = manage(project, "locked", "nightly", "--nonblock", "--", "shell", "-c", SHOW)
    assert (done.stdout, done.returncode) == ("", 75), done.stderr


@pytest.mark.slow
def test_django_runs_the_check(project: Path) -> None:
    settings = project / "project_settings.py"
    assert manage(project, "check").returncode == 0
    settings.write_text(settings.read_text().replace("sqlite:", "reddis:"))
    done = manage(project, "check")
    assert done.returncode == 1
    assert "holdfast.E001" in done.stderr


def test_times_and_options_are_passed_on_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.contrib.django.management.commands.locked import Command

    started: list[Any] = []
    monkeypatch.setattr(os, "execve", lambda program, *how: started.extend(how))
    monkeypatch.setenv("HOLDFAST_URL", "memory://django-environment?retry=1&ttl=9")
    command = ["manage.py", "locked", "nightly", "--max-hold", "1234567.5", "--", "check"]
    with override_settings(HOLDFAST={"OPTIONS": {"prefix": "shop:", "ttl": 5, "label": None}}):
        Command().run_from_argv(command)
    argv, environment = started
    assert argv[argv.index("--max-hold") + 1] == "1234567.5"
    assert argv[argv.index("--label") + 1] == "check"
    url = "memory://django-environment?retry=1&ttl=5&prefix=shop%3A"
    assert environment["HOLDFAST_URL"] == url


def test_no_command_is_an_error() -> None:
    with pytest.raises(CommandError, match="there is no command"):
        call_command("locked", "nightly")
