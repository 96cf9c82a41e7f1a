"""The simulator's servers do what real ones do: the same commands to both, the same replies."""

from collections.abc import Iterator
from random import Random
from typing import Any

import hiredis
import pytest

from holdfast.core.messages import (
    Acquire,
    Break,
    Extend,
    Inspect,
    Raise,
    Release,
    Repair,
    ToNode,
)
from holdfast.engines.redis.commands import Commands
from holdfast.engines.redis.protocol import command as command_of
from holdfast.engines.redis.protocol import load_scripts
from holdfast.lab.servers.redis import RedisServer
from holdfast.lab.simulator.driver import EPOCH, Timeline
from holdfast.lab.simulator.network import Connection, Network, Wire
from holdfast.lab.simulator.redis.server import Server
from tests.engines.redis.party import Bare

HOLDERS = [f"host/1/program/{32 * letter}" for letter in "abcdef"]
READERS = HOLDERS[3:]
TTLS = [50.0, 100.0, 1000.0]
NEAR = 10_000
"""How far apart, in milliseconds, times may be that are the same but for the moments between."""


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


@pytest.fixture
def bare(server: RedisServer) -> Iterator[Bare]:
    server.command("FLUSHALL")
    connection = Bare(server)
    yield connection
    connection.close()


class Pair:
    """A real server and a virtual one, which get the same requests."""

    def __init__(self, real: RedisServer, bare: Bare, *, quorum: bool) -> None:
        self._bare = bare
        # No offer lapses while a busy machine runs the test.
        self.commands = Commands(quorum=quorum, keep=3600.0, offer=60.0, channel="bare:channel")
        time: Any = real.command("TIME")
        timeline = Timeline(0)
        self.virtual = Server("n0", timeline, durable=False, internal_error=pytest.fail)
        self.virtual.clock.jump(int(time[0]) + int(time[1]) / 1e6 - EPOCH)
        self._pushes = hiredis.Reader()
        ear = Connection(Network(timeline, Random(0)), Wire(), Wire(), lambda: None)
        self.virtual.accept(ear)
        subscribe = command_of(b"SUBSCRIBE", b"bare:channel")
        self.virtual.receive(ear, subscribe, self._pushes.feed)
        for command in load_scripts():
            self.virtual.execute(command)
            self._ask(command)

    def ask(self, request: ToNode) -> tuple[Any, Any]:
        """The replies of both. A moment passes, so that waiters arrive one after another."""
        self.virtual.timeline.run(self.virtual.timeline.now + 0.0001)
        [command] = self.commands.exchange([request], True).commands
        return self._ask(command), self.virtual.execute(command)

    def published(self) -> list[bytes]:
        """What the virtual server has published."""
        pushes = iter(self._pushes.gets, False)
        return [push[2] for push in pushes if push[0] == b"message"]

    def _ask(self, command: bytes) -> Any:
        self._bare._socket.sendall(command)
        return self._bare.reply()


def any_request(random: Random, fence: int, *, quorum: bool) -> ToNode:
    key, holder, ttl = random.choice(["job", "j{o}b"]), random.choice(HOLDERS), random.choice(TTLS)
    shares = 0 if quorum and holder in READERS else 1
    if not shares:  # which of several ends last must not hang on the moments between
        ttl = TTLS[READERS.index(holder)]
    match random.randrange(10):
        case 0 | 1 | 2 | 3:
            return Acquire(key, holder, ttl, random.random() < 0.5, fence, shares=shares)
        case 4 | 5:
            return Release(key, holder, random.random() < 0.5)
        case 6:
            return Extend(key, holder, ttl, fence)
        case 7:
            return Raise(key, holder, fence) if quorum else Inspect(key)
        case 8:
            return Repair(key, holder, ttl, fence, shares) if quorum else Break(key)
        case _:
            return Inspect(key)


def alike(real: Any, virtual: Any) -> bool:
    """Whether two replies are the same, but for the moments between them, and for fences that come
    from two clocks."""
    if isinstance(real, list) and isinstance(virtual, list):
        return len(real) == len(virtual) and all(map(alike, real, virtual))
    if isinstance(real, int) and isinstance(virtual, int):
        return real == virtual or (abs(real) > 1 and abs(real - virtual) < NEAR * 1000)
    if isinstance(real, bytes) and real.isdigit():
        return alike(int(real), int(virtual))
    return bool(real == virtual)


@pytest.mark.slow
@pytest.mark.parametrize("quorum", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_the_same_commands_get_the_same_replies(
    seed: int, quorum: bool, server: RedisServer, bare: Bare
) -> None:
    listener = Bare(server)
    listener._socket.sendall(b"SUBSCRIBE bare:channel\r\n")
    listener.reply()
    random, pair = Random(seed), Pair(server, bare, quorum=quorum)
    now = pair.virtual.data.now()
    for step in range(250):
        fence = now + random.randrange(-50_000_000, 50_000_000)
        request = any_request(random, fence, quorum=quorum)
        real, virtual = pair.ask(request)
        assert alike(real, virtual), (seed, step, request, real, virtual)
    timeline = pair.virtual.timeline
    timeline.run()
    published = pair.published()
    for message in published:
        assert alike(listener.reply()[2].split(), message.split())
    assert len(published) > 3
    listener.close()


@pytest.mark.parametrize("quorum", [True, False])
def test_a_lock_lasts_no_less_on_a_server_than_was_asked_for(quorum: bool) -> None:
    """Servers count in milliseconds, and people do not."""
    commands = Commands(quorum=quorum, keep=3600.0, channel="")
    server = Server("n0", Timeline(0), durable=False, internal_error=pytest.fail)
    requests: list[ToNode] = [Acquire("job", "a", 1.0004), Extend("job", "a", 2.0004)]
    if quorum:
        requests += [Release("job", "a"), Repair("job", "a", 3.0004, 1)]
    for command in load_scripts():
        server.execute(command)
    lives = []
    for request in requests:
        [command] = commands.exchange([request], False).commands
        server.execute(command)
        lives.append(server.data.pttl(b"job"))
    assert lives == ([1001, 2001, -2, 3001] if quorum else [1001, 2001])
