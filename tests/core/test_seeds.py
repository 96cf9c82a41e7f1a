"""Many clients, a bad network, crashes and cancellations: what must hold in every run."""

from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from holdfast.core.acquire import acquire
from holdfast.core.effects import Sleep, Steps
from holdfast.core.lease_state import LeaseState
from holdfast.core.messages import Granted
from holdfast.core.release import begin_leave, finish_leave
from holdfast.errors import LockError
from holdfast.lab.simulator.driver import CancelledError
from tests.core.stage import Stage, increasing
from tests.equipment.virtual_node import VirtualClient, spec

TTL = 2.0


@dataclass
class Window:
    """A span of time in which a client believed that it held the lock."""

    who: str
    fence: int
    start: float
    lease: LeaseState | None
    end: float = field(default=0.0)


def section(stage: Stage, client: VirtualClient, windows: list[Window]) -> Steps[None]:
    """Take the lock, work for a while, and write down from when to when it was believed held."""
    random = stage.timeline.random
    while True:
        try:
            lease = yield from acquire(
                client.runtime,
                spec("job", TTL),
                client.runtime.new_holder(""),
                random.choice([None, 1.0]),
            )
        except LockError:
            continue
        if lease is None:
            continue
        window = Window(client.name, lease.fence, stage.timeline.now, lease)
        windows.append(window)
        error: BaseException | None = None
        try:
            yield Sleep(stage.timeline.now + random.uniform(0.1, 5.0))
        except CancelledError as cancelled:
            error = cancelled
        window.end = min(stage.timeline.now, lease.valid_until)
        window.lease = None
        try:
            release = begin_leave(client.runtime, lease, error)
            if release is not None:
                yield from finish_leave(client.runtime, lease, release, error)
        except LockError:
            continue
        if error is not None:
            raise error


def play(seed: int) -> tuple[Stage, list[Window]]:
    stage = Stage(seed, loss=seed % 3 * 0.1)
    random = stage.timeline.random
    stage.network.latency = (0.001, random.choice([0.002, 0.1, 0.7]))
    windows: list[Window] = []

    def begin(client: VirtualClient) -> None:
        client.start(section(stage, client, windows))

    for _ in range(4):
        begin(stage.client())
    for _ in range(6):
        victim = random.choice(stage.clients)
        mishap = random.choice([victim.crash, victim.cancel_one])
        stage.timeline.at(random.uniform(0, 40), mishap)
        stage.timeline.at(random.uniform(0, 40), lambda: begin(stage.client()))
    stage.run(60)
    for window in windows:
        if window.lease is not None:
            window.end = min(stage.timeline.now, window.lease.valid_until)
    return stage, windows


@pytest.mark.parametrize("seed", range(30))
def test_no_two_hold_it_at_once_and_fences_grow(seed: int) -> None:
    _, windows = play(seed)
    assert len(windows) > 5
    for earlier, later in pairwise(windows):
        assert earlier.end <= later.start, (earlier, later)
    assert increasing(window.fence for window in windows)


@pytest.mark.parametrize("seed", range(10))
def test_it_is_granted_again_after_everything_calmed_down(seed: int) -> None:
    stage, windows = play(seed)
    stage.network.loss = 0.0
    stage.network.latency = (0.001, 0.002)
    before = len(windows)
    stage.run(30)
    assert len(windows) > before + 3


def test_the_same_seed_gives_the_same_run() -> None:
    assert play(7)[0].timeline.trace == play(7)[0].timeline.trace
    assert play(7)[0].timeline.trace != play(8)[0].timeline.trace


def test_the_checks_can_fail() -> None:
    """An engine that grants every request is found out."""
    stage, windows = Stage(1), list[Window]()
    stage.node.table.answer = lambda request, now: Granted(1)  # type: ignore[method-assign]
    for _ in range(3):
        client = stage.client()
        client.start(section(stage, client, windows))
    stage.run(20)
    for window in windows:
        window.end = window.end or stage.timeline.now
    assert any(a.end > b.start for a, b in pairwise(windows))
    assert not increasing(window.fence for window in windows)
