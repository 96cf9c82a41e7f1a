"""The scripts leave behind on a virtual server what they leave on a real one: every value, every
life, every message. The same calls to both, on one clock."""

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import pytest

from holdfast.engines.redis.protocol import script
from holdfast.lab.servers.process import HOST
from holdfast.lab.servers.redis import Connection, RedisServer
from holdfast.lab.simulator.redis.keyspace import Keyspace, perform
from holdfast.lab.simulator.redis.server import scripts
from tests.lab.script_calls import HOUR, KEEP, LOCKS, OFFER, TTLS, quorum, single

NEAR = 15_000
"""How far apart, in milliseconds, two times may be that are the same but for a busy machine."""
LOOK = """
local found = {}
for i, key in ipairs(KEYS) do
  local queue = i % 3 == 0
  local value = queue and redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') or redis.call('GET', key)
  found[i] = {value, redis.call('PTTL', key)}
end
return found
"""


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


class Twins:
    """A real server and a virtual one, on one clock, which get the same calls."""

    def __init__(self, server: RedisServer) -> None:
        self.real = Connection((HOST, server.port), 5.0)
        self.real.command("FLUSHALL")
        self._ear = Connection((HOST, server.port), 5.0)
        for channel in ("c1", "c2", "end"):
            self._ear.command("SUBSCRIBE", channel)
        self.now = 0
        self.virtual = Keyspace(lambda: self.now / 1_000_000, self)
        self._published: list[tuple[str, str]] = []

    def close(self) -> None:
        self._ear.__exit__()
        self.real.__exit__()

    def call(self, name: str, keys: list[str], argv: list[str | int]) -> None:
        """Run a script on both, and check that both do the same."""
        seconds, micros = self._ask("TIME")
        self.now = int(seconds) * 1_000_000 + int(micros)
        source = script(name).source
        real = self._ask("EVAL", source.decode(), len(keys), *keys, *argv)
        words = [str(word).encode() for word in (*keys, *argv)]
        virtual = scripts().run(source, len(keys), words, partial(perform, self.virtual))
        call = f"{name} {keys} {argv}"
        assert self._alike(real, virtual), (call, real, virtual)
        assert self._alike_words(self._received(), self._published), call
        self._published.clear()
        real, virtual = self._looks()
        assert self._alike(real, virtual), (call, real, virtual)
        for at, (_, fence, _) in enumerate(LOCKS):  # two readings of a clock go on from one
            if (counter := real[3 * at + 1][0]) is not None:
                self.virtual.set(fence.encode(), counter.encode(), b"KEEPTTL")

    def both(self, command: str, key: str, *words: int) -> None:
        """Something happens to a key of both."""
        self.real.command(command, key, *words)
        match command, words:
            case "DEL", ():
                self.virtual.delete(key.encode())
            case "PEXPIRE", (life,):
                self.virtual.pexpire(key.encode(), b"%d" % life)
            case "PSETEX", (life, number):
                self.virtual.set(key.encode(), b"%d" % number, b"PX", b"%d" % life)

    def _ask(self, *words: str | int) -> Any:
        return self.real.command(*words)

    def publish(self, channel: bytes, message: bytes) -> int:
        if self.listeners(channel):
            self._published.append((channel.decode(), message.decode()))
        return self.listeners(channel)

    def listeners(self, channel: bytes) -> int:
        return int(channel in {b"c1", b"c2"})

    def _received(self) -> list[tuple[str, str]]:
        self.real.command("PUBLISH", "end", "")
        received: list[tuple[str, str]] = []
        while True:
            message: Any = self._ear.read()
            if message[1] == "end":
                return received
            received.append((message[1], message[2]))

    def _looks(self) -> tuple[Any, Any]:
        """Every key with its value and its life, on both."""
        keys = [key for lock in LOCKS for key in lock]
        virtual: list[Any] = []
        for key in map(str.encode, keys):
            queue = key.endswith(b"queue")
            value = self._queue(key) if queue else self.virtual.get(key)
            virtual.append([value, self.virtual.pttl(key)])
        return self._ask("EVAL", LOOK, len(keys), *keys), virtual

    def _queue(self, key: bytes) -> list[Any]:
        scores: Any = self.virtual._values.get(key)
        return [each for member in self.virtual.zrange(key) for each in (member, scores[member])]

    def _alike_words(self, real: list[Any], virtual: list[Any]) -> bool:
        """A message may have a fence in it."""
        words = [[word for message in each for word in message] for each in (real, virtual)]
        texts = [[part for word in each for part in word.split()] for each in words]
        return self._alike(texts[0], [text.encode() for text in texts[1]])

    def _alike(self, real: Any, virtual: Any) -> bool:
        """Whether two are the same. A number that a clock gave may be a moment greater or less."""
        if isinstance(virtual, list):
            return len(real) == len(virtual) and all(map(self._alike, real, virtual))
        if isinstance(virtual, bytes):
            virtual = virtual.decode()
            if not virtual.isdigit():
                return bool(real == virtual)
        if virtual is None or real is None:
            return real is virtual
        real, virtual = int(real), int(virtual)
        if virtual < HOUR:
            return bool(real == virtual or (virtual > NEAR and abs(real - virtual) < NEAR))
        by_the_clock = abs(virtual - self.now) < HOUR // 2
        return bool(real == virtual or (by_the_clock and abs(real - virtual) < NEAR * 1000))


@pytest.fixture
def twins(server: RedisServer) -> Iterator[Twins]:
    made = Twins(server)
    yield made
    made.close()


def upheaval(random: Random, twins: Twins) -> None:
    """A key has expired, or will soon, or later than requested; or a counter is ahead."""
    lock, fence, _ = random.choice(LOCKS)
    match random.randrange(6):
        case 0 | 1:
            twins.both("DEL", lock)
        case 2:
            twins.both("DEL", fence)
        case 3:
            twins.both("PEXPIRE", random.choice([lock, fence]), random.choice([30_000, 900_000]))
        case _:
            ahead = twins.now + HOUR * random.randrange(1, 5)
            twins.both("PSETEX", fence, KEEP, random.choice([9, ahead, ahead]))


@pytest.mark.slow
@pytest.mark.parametrize("draw_call", [single, quorum])
@pytest.mark.parametrize("seed", range(3))
def test_the_same_calls_leave_the_same_behind(seed: int, draw_call: Any, twins: Twins) -> None:
    random = Random(seed)
    for _ in range(400):
        if random.random() < 0.25:
            upheaval(random, twins)
        twins.call(*draw_call(random, twins))


@pytest.mark.slow
def test_waiters_are_woken_though_the_counter_is_gone(twins: Twins) -> None:
    lock, fence, room = LOCKS[0]
    twins.call("vote", [lock, fence], [TTLS[0], KEEP, 0, "a"])
    twins.call("vote", [lock, fence, room], [TTLS[0], KEEP, "c2", 0, "c"])
    twins.both("DEL", fence)
    twins.call("unvote", [lock, room], [f"{OFFER} c1", "a"])
    assert twins.virtual.get(lock.encode()) is None


@pytest.mark.slow
@pytest.mark.parametrize("between", [0, 1, 9, 10])
def test_the_first_of_another_process_among_ten_is_told_of_an_offer(
    between: int, twins: Twins
) -> None:
    ours = [(f"w{number}", "c1") for number in range(1 + between)]
    for holder, channel in (("a", ""), *ours, ("c", "c2"), ("d", "c2")):
        twins.call("acquire", [*LOCKS[0]], [TTLS[0], KEEP, OFFER, channel, holder])
    twins.call("release", [*LOCKS[0]], [KEEP, OFFER, "", "a"])
