"""`scripts/setup-servers`: silent when there is nothing to do, clear when it cannot be done."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "setup-servers"
TOOLS = ("bash", "mktemp", "rm", "tail")
WANTED = set(re.findall(r'^    "\S+ ([^\s/]+)"$', SCRIPT.read_text(), re.MULTILINE))
"""The programs that it looks for on the PATH."""


class Machine:
    """A PATH with the tools that the script uses, and stand-ins for all that matters."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for tool in TOOLS:
            path = shutil.which(tool)
            assert path is not None
            (folder / tool).symlink_to(path)

    def program(self, name: str, does: str = "exit 0") -> None:
        path = self.folder / name
        path.write_text(f"#!{shutil.which('bash')}\n{does}\n")
        path.chmod(0o755)

    def set_up(self) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.folder)}
        return subprocess.run(
            [self.folder / "bash", SCRIPT], env=environment, capture_output=True, text=True
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    machine.program("id", "echo 1000")
    for program in WANTED - {"redis-server"}:
        machine.program(program)
    return machine


def test_nothing_is_said_and_done_when_all_is_there(machine: Machine) -> None:
    machine.program("redis-server")
    done = machine.set_up()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_where_there_is_no_apt(machine: Machine) -> None:
    done = machine.set_up()
    assert done.returncode == 1
    assert "this is no Debian" in done.stderr
    assert "packages: redis-server\n" in done.stderr


def test_where_one_cannot_become_root(machine: Machine) -> None:
    machine.program("apt-get", "exit 99")
    done = machine.set_up()
    assert done.returncode == 1
    assert "no sudo" in done.stderr


@pytest.mark.parametrize("user", [0, 1000])
def test_only_what_is_missing_is_installed_and_quietly(machine: Machine, user: int) -> None:
    machine.program("id", f"echo {user}")
    machine.program("apt-get", "exit 99")
    machine.program("sudo", f'echo sudo >>{machine.folder}/calls; "$@"')
    machine.program("flock", f'echo "${{@:3}}" >>{machine.folder}/calls; echo unpacking')
    done = machine.set_up()
    assert done.returncode == 0
    assert done.stdout == ""
    assert done.stderr == "setup: installing redis-server\n"
    calls = (machine.folder / "calls").read_text()
    assert calls == ("sudo\n" if user else "") + "--as-root redis-server\n"


def test_why_it_failed_is_shown(machine: Machine) -> None:
    machine.program("id", "echo 0")
    machine.program("apt-get", "exit 99")
    machine.program("flock", "echo 'Could not resolve the host'; exit 100")
    done = machine.set_up()
    assert done.returncode == 1
    assert "Could not resolve the host" in done.stderr
    assert "packages: redis-server\n" in done.stderr
