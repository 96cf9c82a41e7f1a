"""The program of `examples/` works, and its Compose files are what its page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.lab.servers.redis import RedisServer

EXAMPLES = Path(__file__).parent.parent / "examples"
ROW = re.compile(r"^\| `(\w+)` \| `(\w+)` \| `(.+)` \|$", re.MULTILINE)
URLS = {folder: url for folder, _, url in ROW.findall((EXAMPLES / "README.md").read_text())}


def test_every_folder_has_a_url() -> None:
    assert sorted(URLS) == sorted(path.parent.name for path in EXAMPLES.glob("*/compose.yaml"))


@pytest.mark.parametrize("folder", URLS)
def test_a_compose_file_publishes_the_ports_of_its_url(folder: str) -> None:
    yaml = pytest.importorskip("yaml")
    services = yaml.safe_load((EXAMPLES / folder / "compose.yaml").read_text())["services"]
    published = [port for service in services.values() for port in service["ports"]]
    addresses = re.findall(r"127\.0\.0\.1:\d+", URLS[folder])
    assert [port.rpartition(":")[0] for port in published] == addresses
    assert all(re.search(r":v?\d", service["image"]) for service in services.values())


@pytest.mark.parametrize("url", URLS.values(), ids=URLS)
def test_a_url_is_one_that_clients_take(url: str) -> None:
    holdfast.Client(url).close()


@pytest.mark.slow
def test_processes_count_one_at_a_time(tmp_path: Path) -> None:
    with RedisServer() as server:
        ran = subprocess.run(
            [sys.executable, EXAMPLES / "count.py"],
            cwd=tmp_path,
            env=os.environ | {"HOLDFAST_URL": server.url},
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert (ran.stdout, ran.stderr) == ("4 processes added 10 each: 40\n", "")
