"""The wall clock of one server jumps; nothing else moves."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.lab.servers.clock import Clock, build_library
from holdfast.lab.servers.process import ProgramMissing, ServerFailed
from holdfast.lab.servers.redis import RedisServer


@pytest.fixture
def server(program: str, tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path, program=program, own_clock=True) as server:
        yield server


def shown_by(server: RedisServer) -> float:
    match server.command("TIME"):
        case [str(seconds), str(microseconds)]:
            return int(seconds) + int(microseconds) / 1e6
    pytest.fail("TIME gives two numbers")


def test_it_is_right_until_it_jumps(server: RedisServer) -> None:
    before = time.time()
    shown = shown_by(server)
    assert before - 0.01 <= shown <= time.time() + 0.01
    assert server.clock.offset == 0


@pytest.mark.parametrize("seconds", [3600.0, 0.25, -3600.0])
def test_a_jump_is_seen_at_once(server: RedisServer, seconds: float) -> None:
    server.clock.jump(seconds)
    before = time.time()
    shown = shown_by(server) - seconds
    assert before - 0.01 <= shown <= time.time() + 0.01
    assert server.clock.offset == seconds


def test_jumps_add_up_and_can_be_undone(server: RedisServer) -> None:
    server.clock.jump(100)
    server.clock.jump(-1000)
    assert server.clock.offset == -900
    assert shown_by(server) < time.time() - 899
    server.clock.jump(-server.clock.offset)
    assert shown_by(server) > time.time() - 1


def test_keys_expire_by_it(server: RedisServer) -> None:
    server.command("SET", "key", "1", "PX", 60_000)
    server.clock.jump(59)
    assert server.command("GET", "key") == "1"
    server.clock.jump(2)
    assert server.command("GET", "key") is None


def test_a_key_lives_longer_if_it_is_set_back(server: RedisServer) -> None:
    server.command("SET", "key", "1", "PX", 60_000)
    server.clock.jump(-3600)
    assert int(str(server.command("PTTL", "key"))) > 3_600_000


def test_the_jump_outlives_a_restart(server: RedisServer) -> None:
    server.clock.jump(3600)
    server.kill()
    server.start()
    assert shown_by(server) > time.time() + 3599


def read_clocks(clock: Clock) -> list[float]:
    """What a process that goes by this clock reads: wall clock, monotonic and boot clock."""
    code = "import time; print(time.time(), time.monotonic(), time.clock_gettime(7))"
    command = clock.given_to([shutil.which("python3") or "python3", "-c", code])
    out = subprocess.run(command, capture_output=True, text=True, check=True)
    return [float(word) for word in out.stdout.split()]


def test_only_the_wall_clock_moves(tmp_path: Path) -> None:
    moved = Clock(tmp_path / "clock")
    moved.jump(86_400)
    before = time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME)
    wall, monotonic, boot = read_clocks(moved)
    assert wall > time.time() + 86_000
    assert before[0] <= monotonic <= time.monotonic()
    assert before[1] <= boot <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_before_1970_it_stands_still(tmp_path: Path) -> None:
    moved = Clock(tmp_path / "clock")
    moved.jump(-1e9 * 5)
    assert read_clocks(moved)[0] == 0


def test_a_server_that_cannot_be_given_a_clock_does_not_pretend(tmp_path: Path) -> None:
    class Deaf(Clock):
        def given_to(self, command: list[str]) -> list[str]:  # type: ignore[override]
            return list(command)

    server = RedisServer(tmp_path)
    server._clock = Deaf(tmp_path / "clock")
    with pytest.raises(ServerFailed, match="cannot be given a clock"):
        server.start()
    assert not server.alive


def test_a_server_without_a_clock_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match="own_clock=True"):
        RedisServer(tmp_path).clock.jump(1)


def test_without_a_compiler_the_remedy_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ProgramMissing, match=r"C compiler.*Debian's packages gcc and libc6"):
        build_library(tmp_path / "clock.so")


def test_without_headers_the_remedy_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'fatal error: fcntl.h: No such file' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(ProgramMissing, match=r"libc6-dev(.|\n)*fcntl\.h"):
        build_library(tmp_path / "clock.so")


def test_elsewhere_than_on_linux_it_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(ProgramMissing, match="only on Linux"):
        build_library(tmp_path / "clock.so")
