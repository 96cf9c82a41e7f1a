"""Ctrl-C at any instant of a conversation with a server, and the end of a process."""

import contextlib
import itertools
import subprocess
import sys
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

import holdfast
from holdfast.engines.zookeeper.commands import Tree, name_of
from holdfast.engines.zookeeper.locks import Locks
from holdfast.engines.zookeeper.registry import Claim, Registry
from holdfast.engines.zookeeper.sessions import Send, Sessions
from tests.contract.interrupting import Interruption
from tests.equipment.servers.zookeeper import ZooKeeperServer

ROUNDS = 100
WAYS_IN = ("zookeeper/connection.py", "kazoo/client.py")
HANDING_OVER = ("_call", "_enqueue", "_wake")
INTERRUPTIONS = 300
"""If each delayed all later requests until the next heartbeat, that would be half a minute."""


def test_an_interruption_leaves_nothing_half_done(server: ZooKeeperServer) -> None:
    """Neither a lock of kazoo's that stays locked, nor another error in place of the Ctrl-C."""
    command = [sys.executable, "-m", "tests.engines.zookeeper.interrupted", server.url, str(ROUNDS)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert ran.returncode == 0, ran.stderr


def test_an_interruption_does_not_delay_what_is_sent_later(server: ZooKeeperServer) -> None:
    """Wherever it comes while a request is handed to kazoo's thread."""
    with holdfast.Client(server.url) as client:
        lock = client.lock("delayed", ttl=3)
        with lock:
            pass  # connected from here on
        for number in range(INTERRUPTIONS):
            interruption = Interruption(number % 10, WAYS_IN, functions=HANDING_OVER)
            with contextlib.suppress(KeyboardInterrupt), interruption, lock:
                pass
            assert interruption.happened
        assert lock.acquire(timeout=10), "the requests are late"


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_process_ends_though_its_client_was_not_closed(
    server: ZooKeeperServer, mode: str
) -> None:
    """Its sessions end with their ttl."""
    command = [sys.executable, "-m", "tests.engines.unclosed", server.url, mode]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.stdout == "True\n", ran.stderr


def test_an_interrupted_search_does_not_forget_that_there_may_be_a_place() -> None:
    """At any of its lines: it is searched for again, and one of an earlier session is deleted."""
    holder = "host/1/program/5ec2e7"
    names = [name_of(1, holder, 3), name_of(2, holder, 4)]
    registry = Registry(lambda holder: None)
    for line in itertools.count():
        session: Any = SimpleNamespace(id=2)
        claim = Claim("job", holder, session, doubtful=True)
        locks = Locks(Tree(""), cast(Sessions, [session]), registry, lambda: 0.0, Random(1))
        steps = locks._find(claim)
        interruption = Interruption(line, ("zookeeper/locks.py",), functions=("_find",))
        with contextlib.suppress(KeyboardInterrupt, StopIteration), interruption:
            next(steps)
            deleting = steps.send([None, names])
            assert isinstance(deleting, Send)
            steps.send([None])
        if not interruption.happened:
            break
        assert claim.doubtful, interruption.where
    assert (claim.place, claim.owner) == (f"{Tree('').queue('job')}/{names[1]}", 2)
    assert line > 5
