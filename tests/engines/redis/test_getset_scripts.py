"""The scripts of `protocol=getset`, called by hand: what each leaves behind, and for how long."""

from typing import Any

import pytest

from holdfast.engines.redis.protocol import script
from holdfast.lab.servers.redis import RedisServer

LOCK, FENCE, HOLDER = KEYS = ("door", "{door}:fence", "{door}:holder")
MINE, THEIRS = "111", "222"
"""Marks: the last digits of the time at which a lock ends."""
KEEP = 900_000
"""How long to keep the keys, in milliseconds."""
NEAR = 5_000
NOW = 1_000.0
"""The callers' clock, in seconds. Whether it is right, the scripts do not know."""


class Door:
    """One lock on one server."""

    def __init__(self, server: RedisServer) -> None:
        self.ask: Any = server.command

    def acquire(self, ends: float, mark: str = MINE, now: float = NOW) -> Any:
        return self._run("getset_acquire", now, f"{ends}{mark}", mark, KEEP, f"holder {mark}")

    def extend(self, ends: float, mark: str = MINE, now: float = NOW) -> Any:
        return self._run("getset_extend", now, f"{ends}{mark}", mark, KEEP)

    def release(self, mark: str = MINE, now: float = NOW) -> Any:
        return self._run("getset_release", now, mark, KEEP)

    def breaks(self, now: float = NOW) -> Any:
        """As an operator does, whoever holds it."""
        return self._run("getset_release", now, "", KEEP, "")

    def _run(self, name: str, *argv: Any) -> Any:
        return self.ask("EVAL", script(name).source.decode(), 3, *KEYS, *map(str, argv))

    @property
    def values(self) -> tuple[Any, Any]:
        return self.ask("GET", LOCK), self.ask("GET", HOLDER)

    def lives(self) -> list[bool]:
        """Whether each key is there for as long as keys are kept."""
        return [0 <= KEEP - int(self.ask("PTTL", key)) < NEAR for key in KEYS]

    def age(self, life: int) -> None:
        """Let every key have that long to live."""
        for key in KEYS:
            self.ask("PEXPIRE", key, life)


@pytest.fixture
def door(server: RedisServer) -> Door:
    return Door(server)


def test_a_free_lock_is_taken_and_everything_is_kept_for_a_while(door: Door) -> None:
    fence = door.acquire(1030.0)
    assert door.values == ("1030.0111", "holder 111")
    assert door.ask("GET", FENCE) == str(fence)
    assert door.lives() == [True] * 3


def test_whoever_asks_again_has_the_same_fence_and_the_later_end(door: Door) -> None:
    fence = door.acquire(1030.0)
    for ends, kept in ((1020.0, 1030.0), (1040.0, 1040.0)):
        door.age(100_000)
        assert door.acquire(ends) == fence
        assert door.values == (f"{kept}111", "holder 111")
        assert door.lives()[::2] == [True] * 2


def test_somebody_elses_is_left_alone_until_its_time_has_passed(door: Door) -> None:
    fence = door.acquire(1030.0)
    for now in (NOW, 1029.9, 1030.0111):
        assert door.acquire(1060.0, THEIRS, now) == "1030.0111"
        assert door.extend(1060.0, THEIRS, now) == 0
        assert door.release(THEIRS, now) == 0
        assert door.values == ("1030.0111", "holder 111")
    assert door.acquire(1060.0, THEIRS, 1030.1) > fence
    assert door.values == ("1060.0222", "holder 222")
    assert door.lives() == [True] * 3


def test_an_extension_moves_the_end_on_and_never_back(door: Door) -> None:
    door.acquire(1030.0)
    for ends, kept in ((1020.0, 1030.0), (1040.0, 1040.0)):
        assert door.extend(ends) == 1
        assert door.values == (f"{kept}111", "holder 111")


def test_what_is_kept_is_kept_on_and_not_cut_short(door: Door) -> None:
    door.acquire(1030.0)
    door.age(100_000)
    assert door.extend(1040.0) == 1
    assert door.lives() == [True] * 3
    door.age(10 * KEEP)
    assert door.extend(1035.0) == 1
    assert all(int(door.ask("PTTL", key)) > 9 * KEEP for key in KEYS)


def test_what_has_ended_or_is_gone_is_not_extended(door: Door) -> None:
    door.acquire(1030.0)
    assert door.extend(1060.0, now=1030.0111) == 1
    assert door.extend(1090.0, now=1060.1) == 0
    assert door.values[0] == "1060.0111"
    door.ask("DEL", LOCK)
    assert door.extend(1090.0) == 0
    assert door.values[0] is None


def test_a_release_leaves_the_counter_only(door: Door) -> None:
    fence = door.acquire(1030.0)
    door.age(100_000)
    assert door.release() == 1
    assert door.values == (None, None)
    assert door.ask("GET", FENCE) == str(fence)
    assert door.lives() == [False, True, False]
    assert door.release() == 0
    assert door.acquire(1030.0, THEIRS) > fence


def test_ones_own_is_given_back_even_when_its_time_has_passed(door: Door) -> None:
    door.acquire(1030.0)
    assert door.release(now=2000.0) == 1


def test_an_operator_breaks_what_is_held_and_nothing_else(door: Door) -> None:
    assert door.breaks() == 0
    door.acquire(1030.0)
    assert door.breaks(now=1030.1) == 0
    assert door.values[0] == "1030.0111"
    assert door.breaks(now=1030.0111) == 1
    assert door.values == (None, None)


def test_a_value_that_is_no_time_is_held_for_ever_and_can_be_broken(door: Door) -> None:
    door.ask("SET", LOCK, "soon")
    assert door.acquire(1030.0) == "soon"
    assert door.extend(1030.0) == 0
    assert door.release() == 0
    assert door.breaks() == 1
