"""Clients that compete for one lock while things go wrong, and what is then true of them."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import pytest

import holdfast
from holdfast.drivers.common import clock
from holdfast.lab.servers.process import ServerFailed
from tests.equipment.servers.etcd import EtcdCluster

TTL = 3.0
A_TURN = 0.02
BOUND = 60.0
"""Seconds in which elections are over, and leases and sessions of the dead have ended, also on a
machine that is very busy."""
A_LOOK = 0.05
"""Seconds between two looks: more of them would keep the members from their work."""


def in_the_end(condition: Callable[[], object]) -> None:
    """Wait until it holds. A member that cannot be asked, as in an election, has not come to it."""

    give_up_at = clock() + BOUND
    while clock() < give_up_at:
        with suppress(OSError, ServerFailed):
            if condition():
                return
        time.sleep(A_LOOK)
    pytest.fail("it did not happen")


def give_back(lease: holdfast.Lease) -> None:
    """Release it. A cluster may elect a leader at any moment, for a busy machine is enough: then
    that cannot be told, and the lease ends by itself."""
    with suppress(holdfast.EngineUnavailable):
        lease.release()


@dataclass
class Turn:
    """One tenure: from when to when its holder was sure to hold the lock."""

    fence: int
    began: float
    ended: float


@dataclass
class Contest:
    """Threads with a client each that take the lock by turns."""

    urls: list[str]
    turns: list[Turn] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[None]:
        threads = [threading.Thread(target=partial(self._compete, url)) for url in self.urls]
        for thread in threads:
            thread.start()
        try:
            in_the_end(lambda: len(self.turns) > 2)
            yield
        finally:
            self.over.set()
            for thread in threads:
                thread.join()

    def goes_on(self) -> None:
        """Everything is well again: wait for some more turns."""
        count = len(self.turns)
        in_the_end(lambda: len(self.turns) > count + 5)

    def _compete(self, url: str) -> None:
        with holdfast.Client(url, ttl=TTL) as client:
            while not self.over.is_set():
                try:
                    with client.lock("door", timeout=2 * TTL) as lease:
                        self._take_turn(lease)
                except holdfast.LockError:
                    continue  # the servers cannot be asked, or have forgotten us: again

    def _take_turn(self, lease: holdfast.Lease) -> None:
        turn = Turn(lease.fence, began := clock(), began)
        if not lease.held:  # it was lost before it could be of use
            return
        time.sleep(A_TURN)
        now = clock()
        if lease.held:
            turn.ended = now
        self.turns.append(turn)

    def overlaps(self) -> list[tuple[Turn, Turn]]:
        """Turns during which two were sure to hold the lock."""
        turns = sorted(self.turns, key=lambda turn: turn.began)
        return [(one, other) for one, other in pairwise(turns) if other.began < one.ended]

    def unordered(self) -> list[tuple[Turn, Turn]]:
        """Turns whose fences are not in the order in which they began."""
        turns = sorted(self.turns, key=lambda turn: turn.began)
        return [(one, other) for one, other in pairwise(turns) if other.fence <= one.fence]


def make_whole(cluster: EtcdCluster) -> None:
    """All members run, and nothing is in them."""
    for server in cluster.servers:
        if server.alive:
            server.thaw()
    cluster.start()
    in_the_end(lambda: _is_empty(cluster))


def _is_empty(cluster: EtcdCluster) -> bool:
    server = cluster.leader()
    server.clear()
    return not server.keys() and not server.leases()
