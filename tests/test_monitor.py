"""What is seen of locks over time."""

import pytest

from holdfast import LeaseInfo, Member, monitor
from holdfast.core.records import secret_at
from holdfast.monitor import Monitor


def lease(
    name: str, fence: int, *holders: str, waiters: int = 0, remaining: float = 30.0
) -> LeaseInfo:
    members = tuple(Member(holder, remaining) for holder in holders)
    shares = 1 if len(holders) == 1 else 0
    return LeaseInfo(name, holders[0], fence, remaining, waiters, shares, members)


def test_holders_come_and_go() -> None:
    seen = Monitor()
    seen.look([lease("job", 1, "ann")], 10.0)
    seen.look([lease("job", 2, "ben")], 11.0)
    seen.look([], 12.0)
    job = seen.find("job")
    assert job is not None
    assert job.info is None
    assert [(each.at, each.what, each.fence, each.holder) for each in job.changes] == [
        (11.0, "ended", 1, "ann"),
        (11.0, "acquired", 2, "ben"),
        (12.0, "ended", 2, "ben"),
    ]
    assert seen.held() == []


def test_how_long_each_of_several_has_held_it() -> None:
    seen = Monitor()
    seen.look([lease("pool", 1, "ann", "ben")], 10.0)
    seen.look([lease("pool", 1, "ben", "cid")], 15.0)
    [pool] = seen.held()
    assert [(who, seen.since, seen.mark) for who, seen in pool.holders.items()] == [
        ("ben", 10.0, ">"),
        ("cid", 15.0, ""),
    ]


def test_since_when_it_was_held_before_the_first_look() -> None:
    """Since its holder asked for it, if that is told and can be."""
    honest, early = (f"web-3/7/app.py/{secret_at(at, bytes(8))}" for at in (400.0, 1001.0))
    seen = Monitor()
    seen.look([lease("job", 1, honest), lease("odd", 1, early), lease("old", 1, "ann")], 1000.0)
    job, odd, old = seen.held()
    assert [(seen.since, seen.mark) for seen in job.holders.values()] == [(400.0, "≤")]
    assert [(seen.since, seen.mark) for seen in odd.holders.values()] == [(1000.0, ">")]
    assert [(seen.since, seen.mark) for seen in old.holders.values()] == [(1000.0, ">")]


def test_the_most_that_was_left_of_a_lease() -> None:
    seen = Monitor()
    for remaining in (9.0, 20.0, 14.0):
        seen.look([lease("job", 1, "ann", remaining=remaining)], 10.0)
    [job] = seen.held()
    assert [seen.most for seen in job.holders.values()] == [20.0]
    seen.look([lease("job", 2, "ben", remaining=5.0)], 11.0)
    assert [(who, seen.most) for who, seen in job.holders.items()] == [("ben", 5.0)]


def test_for_how_long_a_lock_has_been_waited_for() -> None:
    seen = Monitor()
    seen.look([lease("job", 1, "ann", waiters=1), lease("late", 1, "ann")], 10.0)
    job, late = seen.held()
    assert job.wait is not None
    assert (job.wait.lasts(12.0), job.wait.mark) == (2.0, ">")
    assert late.wait is None
    waiting = lease("late", 1, "ann", waiters=2)
    seen.look([lease("job", 2, "ben", waiters=3), waiting], 15.0)
    assert job.wait.lasts(16.0) == 6.0, "another holder has it, and another client waits"
    assert late.wait is not None
    assert (late.wait.lasts(16.0), late.wait.mark) == (1.0, "")
    seen.look([lease("job", 2, "ben"), waiting], 20.0)
    assert job.wait is None
    seen.look([lease("job", 2, "ben", waiters=1)], 30.0)
    assert late.wait is None, "it is free"
    assert job.wait is not None
    assert (job.wait.lasts(31.0), job.wait.mark) == (1.0, "")


def test_what_is_free_is_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "MOST_GONE", 2)
    seen = Monitor()
    for n in range(5):
        seen.look([lease(f"job:{n}", 1, "ann")], float(n))
    seen.look([], 5.0)
    assert [n for n in range(5) if seen.find(f"job:{n}")] == [3, 4]
