"""Many clients of a quorum, a bad network, nodes that freeze, restart and forget, clients that
crash and are cancelled: what must hold in every run."""

from dataclasses import dataclass
from itertools import pairwise
from math import inf

import pytest

from holdfast.core.effects import Sleep, Steps
from holdfast.core.lease_state import LeaseState
from holdfast.errors import LockError
from holdfast.lab.simulator.driver import CancelledError
from tests.core.quorum_stage import TTL, QuorumClient, QuorumStage, spec
from tests.core.stage import acquire, increasing, leave

SIZES = (1, 2, 3, 3, 4, 5, 5, 7)
RUN = 20.0


@dataclass
class Window:
    """A span of time in which a client believed that it held the lock."""

    who: str
    fence: int
    start: float
    tenure: LeaseState
    left_at: float = inf
    lost_at: float = inf

    @property
    def end(self) -> float:
        return min(self.left_at, self.lost_at, self.tenure.valid_until)


def section(stage: QuorumStage, client: QuorumClient, windows: list[Window]) -> Steps[None]:
    """Take the lock, work for a while, and write down from when to when it was believed held."""
    random = stage.timeline.random
    while True:
        try:
            tenure = yield from acquire(client.runtime, spec(), random.choice([None, 1.0]))
        except LockError:
            continue
        if tenure is None:
            continue
        window = Window(client.name, tenure.fence, stage.timeline.now, tenure)
        windows.append(window)

        def note_loss(window: Window = window) -> None:
            window.lost_at = stage.timeline.now

        tenure.callbacks = (note_loss,)
        error: BaseException | None = None
        try:
            yield Sleep(stage.timeline.now + random.choice([0.0, 0.01, random.uniform(0.1, 5.0)]))
        except CancelledError as cancelled:
            error = cancelled
        window.left_at = stage.timeline.now
        try:
            yield from leave(client.runtime, tenure, error)
        except LockError:
            continue
        if error is not None:
            raise error


class Play:
    """One run. In odd ones a node restarts empty, and the clocks agree; in even ones counters
    survive, and the clients' calendars are as much as half a minute apart."""

    def __init__(self, seed: int, *, quorum: int | None = None, guarded: bool = True) -> None:
        self.stage = stage = QuorumStage(SIZES[seed % len(SIZES)], seed, guarded=guarded)
        self.random = random = stage.timeline.random
        self.windows: list[Window] = []
        self.quorum = quorum
        self.forgetful = seed // len(SIZES) % 2 == 1
        stage.network.loss = random.choice([0.0, 0.02, 0.1])
        stage.network.latency = (0.0005, random.choice([0.001, 0.005, 0.02]))
        for node in stage.nodes:
            node.rate = random.uniform(0.99, 1.009)
            node.durable = not self.forgetful
        for _ in range(4):
            self.begin()
        for _ in range(6):
            stage.timeline.at(random.uniform(0, RUN), self.upset_a_client)
            stage.timeline.at(random.uniform(0, RUN), self.begin)
        for _ in range(12):
            stage.timeline.at(random.uniform(0, RUN), self.upset_a_node)
        stage.run(RUN)

    def begin(self) -> None:
        client = self.stage.client(skew=0.0 if self.forgetful else self.random.uniform(-30, 30))
        if self.quorum is not None:
            client.quorum.size = self.quorum
        client.start(section(self.stage, client, self.windows))

    def upset_a_client(self) -> None:
        client = self.random.choice(self.stage.clients)
        self.random.choice([client.crash, client.cancel_one])()

    def upset_a_node(self) -> None:
        node = self.random.choice(self.stage.nodes)
        if self.forgetful and node is self.stage.nodes[0]:
            node.restart(keep=False)
        elif self.random.random() < 0.3:
            node.restart(keep=True)
        else:
            node.freeze()
            self.stage.timeline.at(self.stage.timeline.now + self.random.expovariate(1), node.thaw)

    def overlaps(self) -> list[tuple[Window, Window]]:
        return [(a, b) for a, b in pairwise(self.windows) if a.end > b.start]

    def calm_down(self) -> None:
        self.stage.network.loss = 0.0
        self.stage.network.latency = (0.0005, 0.001)
        for node in self.stage.nodes:
            node.thaw()


@pytest.mark.parametrize(
    "block", [*range(2), *(pytest.param(block, marks=pytest.mark.full) for block in range(2, 12))]
)
def test_no_two_hold_it_at_once_and_fences_grow(block: int) -> None:
    taken = 0
    for seed in range(block * 16, block * 16 + 16):
        play = Play(seed)
        taken += len(play.windows)
        assert not play.overlaps(), seed
        assert increasing(window.fence for window in play.windows), seed
    assert taken > 16 * 5


@pytest.mark.parametrize("seed", range(8))
def test_afterwards_somebody_gets_it_and_nothing_is_left(seed: int) -> None:
    play = Play(seed)
    play.calm_down()
    stage, before = play.stage, len(play.windows)
    stage.run(5 * TTL)  # a quarantine, and what is left of a lease
    assert len(play.windows) > before
    for client in stage.clients:
        for process in list(client.processes):
            if process not in client.loops.values():
                process.cancel()
    stage.run(0.5)
    assert all(
        process in client.loops.values() for client in stage.clients for process in client.processes
    )
    stage.run(1.02 * TTL)
    assert not any(stage.holders())


def test_the_same_seed_gives_the_same_run() -> None:
    assert Play(7).stage.timeline.trace == Play(7).stage.timeline.trace
    assert Play(7).stage.timeline.trace != Play(8).stage.timeline.trace


@pytest.mark.parametrize(("seed", "quorum"), [(5, 2), (4, 2), (7, 3)])
def test_less_than_a_majority_is_found_out(seed: int, quorum: int) -> None:
    size = SIZES[seed]
    assert quorum == size // 2
    seeds = range(seed, 16 * len(SIZES), len(SIZES))
    assert any(Play(each, quorum=quorum).overlaps() for each in seeds)


def test_nodes_that_forget_are_found_out_where_there_is_no_guard() -> None:
    forgetful = range(10, 16 * 40, 16)  # three nodes, one of which restarts empty
    assert any(Play(seed, guarded=False).overlaps() for seed in forgetful)
