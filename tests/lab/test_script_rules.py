"""The scripts keep the rules of a lock, whatever is called when."""

from functools import partial
from random import Random
from typing import Any

import pytest

from holdfast.engines.redis.protocol import script
from holdfast.lab.simulator.redis.keyspace import Keyspace, perform
from holdfast.lab.simulator.redis.server import scripts
from tests.lab.script_calls import CHANNELS, HOUR, KEEP, LOCKS, quorum, single
from tests.lab.script_rules import Call, Lock, broken

LISTENING = frozenset("abcd")
"""The fifth has no subscriber."""


class VirtualGround:
    """A virtual server, whose clock stands while a script runs."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000_000
        self.virtual = Keyspace(lambda: self.now / 1_000_000, self)
        self.published: list[str] = []

    def publish(self, channel: bytes, message: bytes) -> int:
        self.published.append(message.decode())  # whether its subscriber is here or at a replica
        return self.listeners(channel)

    def listeners(self, channel: bytes) -> int:
        return int(channel.decode() in {CHANNELS[holder] for holder in LISTENING})

    def call(self, name: str, keys: list[str], argv: list[str | int]) -> list[Call]:
        """Run a script, and return what it did to each lock."""
        locks = [lock for lock in LOCKS if lock[0] in keys]
        before = [self.lock(lock) for lock in locks]
        self.published.clear()
        words = [str(word).encode() for word in (*keys, *argv)]
        reply: Any = scripts().run(
            script(name).source, len(keys), words, partial(perform, self.virtual)
        )
        after = [self.lock(lock) for lock in locks]
        of_each = [(argv, reply)]
        if name == "extend":
            of_each = [([argv[0], *argv[2 * n + 1 : 2 * n + 3]], reply[n]) for n in range(2)]
        return [
            Call(name, words, answer, was, then, self.now, LISTENING, tuple(self.published))
            for (words, answer), was, then in zip(of_each, before, after, strict=True)
        ]

    def lock(self, keys: tuple[str, ...]) -> Lock:
        lock, fence, queue = (key.encode() for key in keys[:3])
        data = self.virtual
        owner, counter = data.get(lock), data.get(fence)
        return Lock(
            None if owner is None else owner.decode(),
            data.pttl(lock),
            None if counter is None else int(counter),
            data.pttl(fence),
            tuple(member.decode() for member in data.zrange(queue)),
            data.pttl(queue),
        )

    def upheaval(self, random: Random) -> None:
        """Time passes, or a key is gone, or a counter is ahead."""
        lock, fence, *_ = (key.encode() for key in random.choice(LOCKS))
        match random.randrange(5):
            case 0:
                self.virtual.delete(lock)
            case 1:
                self.virtual.delete(fence)
            case 2:
                ahead = self.now + random.choice([-HOUR, HOUR // 100, HOUR])
                self.virtual.set(fence, b"%d" % ahead, b"PX", b"%d" % KEEP)
            case _:
                self.now += random.choice([1, 1_000_000, 60_000_000, 110_000_000])


@pytest.mark.parametrize("draw_call", [single, quorum])
@pytest.mark.parametrize("seed", range(4))
def test_every_call_keeps_the_rules(seed: int, draw_call: Any) -> None:
    random, ground = Random(seed), VirtualGround()
    for _ in range(600):
        ground.now += random.randrange(1000)
        if random.random() < 0.25:
            ground.upheaval(random)
        for call in ground.call(*draw_call(random, ground)):
            assert broken(call) == [], call


def test_a_broken_rule_is_noticed() -> None:
    free = Lock(None, -2, 7, 5000, (), -2)
    held = Lock("a", 1000, 7, 5000, (), -2)
    granted = Call("vote", [1000, 5000, 0, "a"], 7, free, held, 7, LISTENING)
    assert broken(granted) == ["fences grow"]
    taken = Call("unvote", ["500 c1", "b"], 1, held, free, 7, LISTENING)
    assert "it answers whether it was theirs" in broken(taken)
