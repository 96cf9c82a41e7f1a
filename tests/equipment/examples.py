"""The examples of a Markdown page: found, and run against real servers."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Self

from holdfast.lab.servers.process import free_port
from holdfast.lab.servers.redis import RedisServer
from tests.equipment.servers.etcd import EtcdServer
from tests.equipment.servers.mariadb import MariaDbServer
from tests.equipment.servers.masters import RedisMasters
from tests.equipment.servers.postgres import PostgresServer
from tests.equipment.servers.zookeeper import ZooKeeperServer

BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
BIN = Path(sys.executable).parent
SLOW_TO_START = re.compile(r"localhost:(5432|3306|2379|2181)")
SHELL_TIMEOUT = 180.0


class Block(NamedTuple):
    """A fenced block: its language, the file that it is (or ""), and what it contains."""

    language: str
    file: str
    text: str

    def write(self, folder: Path, text: str) -> None:
        """Make it a file in this folder."""
        path = folder / self.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def blocks(page: Path) -> list[Block]:
    """What is to be done on a page, in order: files to write, Python to run, and commands, if there
    are files."""
    found = [Block(*parts) for parts in BLOCK.findall(page.read_text())]
    has_files = any(block.file for block in found)
    return [
        block
        for block in found
        if block.file or block.language == "python" or (has_files and block.language == "console")
    ]


def is_slow(page: Path) -> bool:
    """Whether its examples are programs, or need servers that are slow to start."""
    return any(block.file or SLOW_TO_START.search(block.text) for block in blocks(page))


def run_in_shell(text: str) -> tuple[str, str]:
    """Run the commands of a block (`$ ...`), and give what they print and what the block shows."""
    lines = text.splitlines(keepends=True)
    script = "".join(line.removeprefix("$ ") for line in lines if line.startswith("$ "))
    expected = "".join(line for line in lines if not line.startswith("$ "))
    shell = subprocess.Popen(
        ["bash", "-c", script],
        env=os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = shell.communicate(timeout=SHELL_TIMEOUT)
        return printed, expected
    except BaseException:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
        raise


class Servers:
    """Real servers in place of those that the examples name. Each is started when it is first
    named, and those that are quick to start are new for each page."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}
        self._of_page = ExitStack()
        self._stack = ExitStack()
        self._postgres: PostgresServer | None = None
        self._databases = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._of_page.close()
        self._stack.close()

    def empty(self) -> None:
        """Begin a page, without what the one before has left."""
        self._of_page.close()
        self._found.clear()

    def instead_of_those_named(self, text: str) -> str:
        """The text with the addresses of real servers."""
        for named, start in self._starts().items():
            if named in text:
                if named not in self._found:
                    start()
                text = text.replace(named, self._found[named])
        return text

    def _starts(self) -> dict[str, Callable[[], None]]:
        return {
            "localhost:6379": self._start_redis,
            "redis-1:6379": self._start_masters,
            "redis-2:6379": self._start_masters,
            "redis-3:6379": self._start_masters,
            "localhost:5432/shop": self._start_postgres,
            "localhost:3306/shop": self._start_mariadb,
            "localhost:2379": self._start_etcd,
            "localhost:2181": self._start_zookeeper,
            "8000": self._find_port,
        }

    def _start_redis(self) -> None:
        self._found["localhost:6379"] = self._of_page.enter_context(RedisServer()).address

    def _start_masters(self) -> None:
        # With all writes on disk, so that new servers need no quarantine.
        masters = self._of_page.enter_context(RedisMasters(count=3, append_only="always"))
        for number, server in enumerate(masters.servers, start=1):
            self._found[f"redis-{number}:6379"] = server.address

    def _start_postgres(self) -> None:
        if self._postgres is None:
            self._postgres = self._stack.enter_context(PostgresServer())
        self._databases += 1
        name = f"shop{self._databases}"
        self._postgres.query(f"CREATE DATABASE {name}")
        url = self._postgres.url
        self._found["localhost:5432/shop"] = re.sub(r"^\w+://|\w+$", "", url) + name

    def _start_mariadb(self) -> None:
        url = self._of_page.enter_context(MariaDbServer()).url
        self._found["localhost:3306/shop"] = re.sub(r"^\w+://", "", url)

    def _start_etcd(self) -> None:
        self._found["localhost:2379"] = self._of_page.enter_context(EtcdServer()).address

    def _start_zookeeper(self) -> None:
        self._found["localhost:2181"] = self._of_page.enter_context(ZooKeeperServer()).address

    def _find_port(self) -> None:
        self._found["8000"] = str(free_port())
