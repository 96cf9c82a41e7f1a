"""What the examinations have in common."""

import gc
import threading
from dataclasses import replace

import pytest

import holdfast
from holdfast import NodeInfo
from holdfast.engines.examining import judge_margin, side_by_side, with_margin

NODE = NodeInfo("a")


def test_servers_are_asked_at_the_same_time() -> None:
    """Each answers when all have been asked."""
    all_are_asked = threading.Barrier(5, timeout=60)
    assert sorted(side_by_side(lambda _: all_are_asked.wait(), range(5))) == [0, 1, 2, 3, 4]


def margins(count: int, votes: int, voters: int, error: str = "") -> set[int | None]:
    nodes = [NodeInfo(str(i), error) for i in range(count)]
    return {node.margin for node in with_margin(nodes, votes, voters)}


def test_how_many_may_fail() -> None:
    assert margins(5, 5, 5) == {2}
    assert margins(5, 3, 5) == {0}
    assert margins(3, 1, 3) == {-1}
    assert margins(4, 4, 4) == {1}
    assert margins(1, 1, 1) == {None}
    assert margins(2, 2, 3) == {None}, "one of them is not named"
    assert margins(3, 0, 0) == {None}, "it is not known how many there are"
    assert margins(3, 0, 0, error="it is down") == {-2}


def test_the_margin_is_judged() -> None:
    def judged(margin: int | None) -> list[str]:
        node = replace(NODE, margin=margin)
        return [str(finding) for finding in judge_margin("it", node, 3)]

    assert judged(None) == judged(1) == []
    assert judged(0) == ["warning: it: 2 of 3 servers have a vote now: none to spare"]
    assert judged(-2) == ["critical: it: 0 of 3 servers have a vote now: 2 too few"]


def test_a_lock_that_cannot_be_extended_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not dropped, which would be warned of."""

    def fail(lease: holdfast.Lease, ttl: float | None = None) -> None:
        raise holdfast.EngineUnavailable("not extended", {"memory": "it does not answer"})

    monkeypatch.setattr(holdfast.Lease, "extend", fail)
    with holdfast.Client("memory://examined") as client:
        found = [finding.what for finding in client.diagnose()]
        assert [what for what in found if what.startswith("to hand a lock over failed")]
        assert list(client.leases()) == []
    gc.collect()
