"""Ctrl-C at any instant of a conversation with a server, and the end of a process."""

import subprocess
import sys

import pytest

from tests.engines.zookeeper.glimpse import outsider, places
from tests.equipment.servers.zookeeper import ZooKeeperServer
from tests.patience import wait_for

ROUNDS = 200


def test_a_strike_leaves_nothing_half_done(server: ZooKeeperServer) -> None:
    """Neither a lock of kazoo's that stays locked, nor another error in place of the Ctrl-C."""
    command = [sys.executable, "-m", "tests.engines.zookeeper.struck", server.url, str(ROUNDS)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_process_that_ends_leaves_nothing(server: ZooKeeperServer, colour: str) -> None:
    """Its client was never closed; but the lock is free long before its ttl is over."""
    command = [sys.executable, "-m", "tests.engines.zookeeper.unclosed", server.url, colour]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.stdout == "True\n", ran.stderr
    with outsider(server) as eye:
        wait_for(lambda: not places(eye, "unclosed"))
