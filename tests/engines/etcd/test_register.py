"""Five processes count in a register that a lock guards, and whoever holds the lock is stopped for
longer than its lease lasts. Without the fence, counts are lost; with it, none is."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.lab.servers.etcd import EtcdServer
from tests.patience import wait_for

from .register import Register

pytestmark = pytest.mark.slow

COUNTERS, PAUSES = 5, 3


@pytest.mark.parametrize("mode", ["unfenced", "fenced"])
def test_a_register_guarded_by_the_lock(server: EtcdServer, tmp_path: Path, mode: str) -> None:
    register = Register(tmp_path / "register")
    command = [sys.executable, "-m", "tests.engines.etcd.register"]
    command += [server.url, str(register.path), mode]
    pipe = subprocess.PIPE
    counters = [
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(COUNTERS)
    ]
    try:
        for _ in range(PAUSES):
            _stop_one_inside(register)
        counted = sum(int(counter.communicate("end\n", timeout=30)[0]) for counter in counters)
    finally:
        for counter in counters:
            counter.kill()
            counter.wait()
    lost = counted - register.read()["value"]
    assert lost == 0 if mode == "fenced" else lost > 0


def _stop_one_inside(register: Register) -> None:
    """Stop one that has read the number and not written it yet, until others have gone on."""
    stopped = 0
    value = -1

    def caught() -> bool:
        nonlocal stopped, value
        inside = register.read()["inside"]
        if inside:
            os.kill(inside, signal.SIGSTOP)
            found = register.read()
            if found["inside"] == inside:
                stopped, value = inside, found["value"]
                return True
            os.kill(inside, signal.SIGCONT)
        return False

    wait_for(caught)
    wait_for(lambda: register.read()["value"] > value + 3)
    os.kill(stopped, signal.SIGCONT)
    wait_for(lambda: register.read()["value"] > 0)
