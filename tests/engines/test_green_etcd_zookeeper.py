"""Green threads, which gevent and eventlet put in the place of threads."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.equipment.servers.etcd import EtcdServer
from tests.equipment.servers.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.slow

WORKER = Path(__file__).with_name("green_worker.py")


def run(library: str, url: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-W", "ignore", str(WORKER), library, url]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.parametrize("make", [EtcdServer, ZooKeeperServer])
def test_gevent(make: type[EtcdServer | ZooKeeperServer]) -> None:
    with make() as server:
        ended = run("gevent", server.url)
    assert ended.stdout == "done\n", ended.stderr


@pytest.mark.parametrize("scheme", ["etcd", "zookeeper"])
def test_eventlet_is_refused_before_anything_happens(scheme: str) -> None:
    ended = run("eventlet", f"{scheme}://127.0.0.1:1")
    assert f"RuntimeError: {scheme}:// does not work under eventlet" in ended.stderr
