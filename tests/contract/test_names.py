"""Names: any text, and distinct ones never meet."""

from __future__ import annotations

import itertools

import pytest

from .stage import Stage

LONG = "n" * 511
NAMES = [
    *("a", "A", "ab", "aa", "b", "á", "a\u0301", "Ａ", "ß", "ss", "ı", "i", "İ", "I", "ﬁ", "fi"),  # noqa: RUF001 - they look alike on purpose
    *("a:b", "a/b", "a\\b", "a.b", "a%b", "a%3Ab", "a%25b", "a_b", "a-b", "a*b", "a?b", "a[b]"),
    *("{a}", "{a}b", "{a}:fence", "a:fence", "a:waiters", "holdfast:a", ":", "/", "//", "%", "_"),
    *(" ", "a ", " a", "a\n", "a\t", "\ufeffa", "a\u200b", "'", '"', "a'; --", "$1", "?", "\x7f"),
    *("锁", "🔒", "🔒🔒", "عربي", "..", ".", "~", "0", "00", "1", "1.0", "null", "NULL", "None"),
    *(LONG + "a", LONG + "b", LONG + "A", LONG, "é" * 256),
]


async def test_distinct_names_never_collide(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    leases = {}
    for name in NAMES:
        leases[name] = await stage.tries(ann, ann.lock(name))
        assert leases[name], f"{name!r} met another name"
    for name, lease in leases.items():
        assert lease.name == name
        assert await stage.tries(ben, ben.lock(name)) is None
        info = await ben(ben.client.inspect, name)
        assert (info.name, info.holder, info.fence) == (name, lease.holder, lease.fence)
    listed = await ben(ben.client.leases)
    assert sorted(info.name for info in listed) == sorted(NAMES)

    for gone, name in enumerate(NAMES, start=1):
        await ann(leases[name].release)
        if gone % 10 == 0:
            assert len(await ben(ben.client.leases)) == len(NAMES) - gone
    assert all(not lease.lost for lease in leases.values())


@pytest.mark.turns
async def test_a_list_by_prefix_takes_it_literally(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    for name in NAMES:
        await ann(ann.lock(name).acquire)
    for prefix in (
        "a",
        "A",
        "a%",
        "a_",
        "a*",
        "a[",
        "{a}",
        "",
        " ",
        "á",
        "🔒",
        "%",
        "_",
        "no such",
    ):
        listed = await ann(ann.client.leases, prefix=prefix)
        assert sorted(info.name for info in listed) == sorted(
            n for n in NAMES if n.startswith(prefix)
        )


@pytest.mark.turns
@pytest.mark.slow
async def test_names_in_all_orders(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    for one, other in itertools.permutations(("a", "A", "a:", "a:b", "{a}"), 2):
        lease = await stage.tries(ann, ann.lock(one))
        assert await stage.takes(ben, other)
        await ann(lease.release)


@pytest.mark.turns
async def test_clients_with_other_prefixes_do_not_meet(stage: Stage) -> None:
    ann = stage.actor("ann", stage.client(prefix="one:"))
    ben = stage.actor("ben", stage.client(prefix="two:"))
    cleo = stage.actor("cleo", stage.client(prefix="one:"))
    await ann(ann.lock("door").acquire)

    assert await stage.takes(ben, "door")
    assert not await stage.takes(cleo, "door")
    assert await ben(ben.client.leases) == []
    assert [info.name for info in await cleo(cleo.client.leases)] == ["door"]
