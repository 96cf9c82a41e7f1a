"""Paths, and the order of places."""

import random

import pytest

from holdfast.engines.zookeeper.commands import (
    Tree,
    decode,
    encode,
    in_order,
    name_of,
    parents,
    prefix,
    read_place,
    secret_of,
)

GREATEST, LEAST = 2**31 - 1, -(2**31)


def numbers(names: list[str]) -> list[int]:
    return [place.number for place in in_order(names)]


def test_places_are_in_the_order_of_their_numbers() -> None:
    names = [f"{random.getrandbits(60):x}_s{i}_{i:010d}" for i in range(100)]
    random.shuffle(names)
    assert numbers(names) == list(range(100))


def test_the_order_survives_the_end_of_the_numbers() -> None:
    beyond = [GREATEST - 1, GREATEST, LEAST, LEAST + 1]
    names = [f"1_s{i}_{number:010d}" for i, number in enumerate(beyond)]
    for _ in range(20):
        random.shuffle(names)
        assert numbers(names) == beyond


def test_the_order_survives_the_change_of_sign() -> None:
    names = [f"1_s_{number:010d}" for number in (1, -2, 0, -1)]
    assert numbers(names) == [-2, -1, 0, 1]


def test_what_is_not_ours_is_passed_over() -> None:
    assert numbers(["lock-0000000001", "_", "x_y_z", "1_s_0000000002"]) == [2]


@pytest.mark.parametrize("session", [1, 0x1000A5B6C7D8E9F0, -1])
def test_a_name_tells_what_it_was_made_of(session: int) -> None:
    holder = "host/1/program/5ec2e7"
    name = name_of(session, holder, 7)
    assert name == f"{prefix(session, holder, waits=False)}0000000007"
    place = read_place(name)
    assert place is not None
    assert (place.session, place.secret, place.number) == (session % 2**64, "5ec2e7", 7)
    waiting = read_place(f"{prefix(session, holder, waits=True)}-2147483648")
    assert waiting is not None
    assert (place.waits, waiting.waits, waiting.number) == (False, True, LEAST)
    for shares in (0, 1, 12):
        shared = read_place(name_of(session, "a_b=3", 7, shares))
        assert shared is not None
        assert (shared.secret, shared.shares) == (secret_of("a_b=3"), shares)


@pytest.mark.parametrize("key", [".", "..", "a/b", "%2E", "ключ 🔑", "zookeeper", "\x01\x7f\ufffe"])
def test_every_key_has_a_name_of_its_own(key: str) -> None:
    name = encode(key)
    assert decode(name) == key
    assert name not in (".", "..")
    assert name.isascii()
    assert name.isprintable()
    assert "/" not in name


def test_paths_lie_below_the_chroot() -> None:
    tree = Tree("/app")
    assert tree.queue("a/b") == "/app/holdfast/locks/a%2Fb"
    assert tree.cell("c") == "/app/holdfast/cells/c"
    assert parents(tree.cell("c"))[0] == "/app"
