"""The steps of an exchange one by one, where no real server would stop between two of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import NoNodeError, RuntimeInconsistency

from holdfast.core.effects import Sleep
from holdfast.core.messages import DONE, NOT_YOURS, Acquire, Answer, Extend, Held
from holdfast.engines.zookeeper.commands import Tree, name_of
from holdfast.engines.zookeeper.locks import Locks
from holdfast.engines.zookeeper.registry import Claim, Registry
from holdfast.engines.zookeeper.sessions import Calls, Send
from tests.engines.meanwhile import meanwhile


@dataclass(eq=False)
class Session:
    """One that is always fresh."""

    ttl: float
    id: int
    writes_at: float = -inf
    written_at: float = -inf

    def is_fresh(self, since: float) -> bool:
        return True


LONGER: Any = Session(60.0, 2)
SHORTER: Any = Session(10.0, 1)


class Sessions:
    """A short one and a long one."""

    def of(self, ttl: float) -> Any:
        return LONGER if ttl > SHORTER.ttl else SHORTER

    def __iter__(self) -> Iterator[Any]:
        return iter((SHORTER, LONGER))


@pytest.fixture
def registry() -> Registry:
    return Registry(lambda holder: None)


@pytest.fixture
def claim(registry: Registry) -> Claim:
    claim = registry.open(Acquire("job", "ann", 10.0), SHORTER)
    assert claim is not None
    claim.place, claim.owner, claim.ends_at = f"/job/{name_of(1, 'ann', 7)}", 1, 10.0
    return claim


@pytest.fixture
def locks(registry: Registry) -> Locks:
    sessions: Any = Sessions()
    for session in sessions:
        session.writes_at = session.written_at = -inf
    return Locks(Tree("/"), sessions, registry, lambda: 0.0, Random(1))


def end_of(steps: Calls[Answer], replies: list[Any]) -> Answer:
    with pytest.raises(StopIteration) as end:
        steps.send(replies)
    answer: Answer = end.value.value
    return answer


def move(locks: Locks, claim: Claim) -> Calls[Answer]:
    """The request to move it has been sent, and is not answered yet."""
    steps = locks.extend(Extend("job", "ann", 60.0, 7), claim, 0.0)
    step = next(steps)
    while isinstance(step, Send) and not step.calls:  # it is being connected
        step = steps.send([])
    assert isinstance(step, Send)
    assert step.session is LONGER
    return steps


def together(locks: Locks, claim: Claim, registry: Registry) -> list[Calls[Answer]]:
    """Two leases of one session are extended: the first is to be written to, and the second looked
    for."""
    other = registry.open(Acquire("gate", "ben", 10.0), SHORTER)
    assert other
    other.place, other.owner, other.ends_at = f"/gate/{name_of(1, 'ben', 8)}", 1, 10.0
    renewals = [
        locks.extend(Extend("job", "ann", 10.0, 7), claim, 0.0),
        locks.extend(Extend("gate", "ben", 10.0, 8), other, 0.0),
    ]
    writing, looking = map(next, renewals)
    assert isinstance(writing, Send)
    assert isinstance(looking, Send)
    assert ([call.by_leader for call in writing.calls], looking.calls[0].by_leader) == (
        [True],
        False,
    )
    return renewals


@pytest.mark.parametrize("is_there", [True, False])
def test_one_write_is_proof_for_all_leases_of_a_session(
    locks: Locks, claim: Claim, registry: Registry, is_there: bool
) -> None:
    first, second = together(locks, claim, registry)
    assert end_of(first, [SimpleNamespace()]) == DONE
    found = [SimpleNamespace()] if is_there else [None]
    assert end_of(second, found) == (DONE if is_there else NOT_YOURS)


def test_a_write_that_was_not_acknowledged_is_no_proof(
    locks: Locks, claim: Claim, registry: Registry
) -> None:
    first, second = together(locks, claim, registry)
    first.close()
    step = second.send([SimpleNamespace()])
    assert isinstance(step, Send)
    assert step.calls[0].by_leader
    assert end_of(second, [NoNodeError()]) == NOT_YOURS


def test_a_write_that_was_sent_later_is_no_proof(
    locks: Locks, claim: Claim, registry: Registry
) -> None:
    """The server may have answered the read from before a break, and the write after it."""
    first, second = together(locks, claim, registry)
    first.close()
    SHORTER.written_at = SHORTER.writes_at = 1.0  # of another thread
    step = second.send([SimpleNamespace()])
    assert isinstance(step, Send)
    assert step.calls[0].by_leader


@pytest.mark.parametrize("was_done", [False, True])
def test_a_move_whose_reply_was_lost_is_looked_for(
    locks: Locks, claim: Claim, was_done: bool
) -> None:
    old = claim.place.rpartition("/")[2]
    move(locks, claim).close()
    renewing = locks.extend(Extend("job", "ann", 10.0, 7), claim, 0.0)
    looking = next(renewing)
    assert isinstance(looking, Send)
    assert looking.session is LONGER, "a server that knows what came of the move"
    assert [call.by_leader for call in looking.calls] == [True, False], "it may be behind"
    there = name_of(2, "ann", 7) if was_done else old
    renewing.send([None, [there]])
    assert (claim.session, claim.owner) == ((LONGER, 2) if was_done else (SHORTER, 1))
    assert claim.place.endswith(there)
    assert end_of(renewing, [SimpleNamespace()]) == DONE


@pytest.mark.parametrize("line", range(12))
def test_of_two_moves_that_begin_at_once_one_waits(locks: Locks, claim: Claim, line: int) -> None:
    """Whichever line of the one is the last before the other: it would take it for a loss."""
    moves = [locks.extend(Extend("job", "ann", ttl, 7), claim, 0.0) for ttl in (50.0, 60.0)]
    steps: list[Send | Sleep] = []

    def begin(move: Calls[Answer]) -> None:
        next(move)  # the longer session is being connected
        steps.append(move.send([]))

    with meanwhile(line, ("extend", "begin_extension"), lambda: begin(moves[1])):
        begin(moves[0])
    assert sorted(type(each).__name__ for each in steps) == ["Send", "Sleep"]


def test_a_renewal_goes_on_while_a_longer_session_is_being_connected(
    locks: Locks, claim: Claim
) -> None:
    """Its servers may take longer for that than the lease has."""
    moving = locks.extend(Extend("job", "ann", 60.0, 7), claim, 0.0)
    next(moving)
    renewing = locks.extend(Extend("job", "ann", 10.0, 7), claim, 0.0)
    assert isinstance(next(renewing), Send)
    assert end_of(renewing, [SimpleNamespace()]) == DONE


@pytest.mark.parametrize("ttl", [10.0, 50.0])
def test_an_extension_waits_until_a_move_is_over(locks: Locks, claim: Claim, ttl: float) -> None:
    moving = move(locks, claim)
    waiting = locks.extend(Extend("job", "ann", ttl, 7), claim, 0.0)
    assert isinstance(next(waiting), Sleep)
    moving.send([["created", True]])
    assert isinstance(waiting.send([]), Sleep)
    assert end_of(moving, [SimpleNamespace()]) == DONE
    writing = waiting.send([])
    assert isinstance(writing, Send)
    assert writing.session is LONGER, "where the place is now"
    assert end_of(waiting, [SimpleNamespace()]) == DONE


def test_a_lease_that_was_released_is_not_moved(locks: Locks, claim: Claim) -> None:
    moving = locks.extend(Extend("job", "ann", 60.0, 7), claim, 0.0)
    next(moving)  # the longer session is being connected
    releasing = locks.release(claim)
    next(releasing)
    assert end_of(releasing, [None]) == DONE
    moving.send([])
    moving.send([])
    assert end_of(moving, [[RuntimeInconsistency(), NoNodeError()]]) == NOT_YOURS


@pytest.mark.parametrize("line", range(12))
def test_a_release_that_meets_another_one_is_confirmed(
    locks: Locks, claim: Claim, line: int
) -> None:
    """As after a Ctrl-C: the other one does not find the place any more."""
    first, second = locks.release(claim), locks.release(claim)
    next(first)
    next(second)
    with meanwhile(line, ("release",), lambda: second.send([NoNodeError()])):
        assert end_of(first, [None]) == DONE


def test_a_try_whose_reply_was_lost_learns_that_the_lock_is_held(
    locks: Locks, claim: Claim, registry: Registry
) -> None:
    """The age of the place before is told by when its own was made, also if that was found."""
    claim.place, claim.doubtful = "", True  # the reply to the join was lost
    steps = locks.acquire(Acquire("job", "ann", 10.0, once=True), 0.0)
    first, mine = (name_of(1, holder, number, 1) for number, holder in enumerate(("ben", "ann")))
    a_minute_later: Any = SimpleNamespace(czxid=7, ctime=61_000)
    next(steps)
    steps.send([None, [first, mine]])  # it is found
    steps.send([a_minute_later, [first, mine]])
    steps.send([SimpleNamespace(ctime=1_000)])
    answer = end_of(steps, [None])
    assert isinstance(answer, Held)


@pytest.mark.parametrize("ttl", [10.0, 60.0])
def test_a_lease_whose_place_is_gone_after_a_lost_move_is_lost(
    locks: Locks, claim: Claim, ttl: float
) -> None:
    """Its session ended before the move arrived. Nothing is written to another node: the path of no
    place would be that of the root."""
    move(locks, claim).close()
    renewing = locks.extend(Extend("job", "ann", ttl, 7), claim, 0.0)
    next(renewing)
    assert end_of(renewing, [None, []]) == NOT_YOURS
    again = locks.extend(Extend("job", "ann", ttl, 7), claim, 0.0)
    with pytest.raises(StopIteration) as end:
        next(again)
    assert end.value.value == NOT_YOURS


@pytest.mark.parametrize("begins", ["before", "meanwhile"])
def test_a_release_during_a_move_leaves_no_place_behind(
    locks: Locks, claim: Claim, registry: Registry, begins: str
) -> None:
    """It cannot know whether the move is carried out before or after what it sends itself."""
    releasing = locks.release(claim)
    if begins == "before":
        next(releasing)
    moving = move(locks, claim)
    if begins == "meanwhile":
        next(releasing)
        releasing.send([None, [name_of(1, "ann", 7)]])
    releasing.send([NoNodeError()])  # the move came between
    deleting = releasing.send([None, [name_of(2, "ann", 7)]])
    assert isinstance(deleting, Send)
    deleted: list[str] = []
    connection: Any = SimpleNamespace(delete_async=deleted.append)
    deleting.calls[0].send(connection)
    assert [path.rpartition("/")[2] for path in deleted] == [name_of(2, "ann", 7)]
    assert end_of(releasing, [None]) == DONE
    assert registry.find("ann") is None
    moving.send([["created", True]])
    assert end_of(moving, [NoNodeError()]) == NOT_YOURS


def test_a_place_with_the_name_of_a_former_session_is_deleted_after_all(
    locks: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lasts for as long as the session that it was made in, and would block its own client."""
    request = Acquire("job", "ann", 10.0)
    first = locks.acquire(request, 0.0)
    next(first)
    first.send([])  # connected
    monkeypatch.setattr(SHORTER, "id", 3)
    place = name_of(1, "ann", 7)
    made = SimpleNamespace(czxid=7, ctime=0, ephemeralOwner=3)
    first.send([(f"/job/{place}", made), [place]])
    first.close()  # whether it was deleted is unknown
    again = locks.acquire(request, 0.0)
    next(again)
    looking = again.send([])
    assert isinstance(looking, Send)
    deleting = again.send([None, [place]])
    assert isinstance(deleting, Send)
    deleted: list[str] = []
    connection: Any = SimpleNamespace(delete_async=deleted.append)
    deleting.calls[0].send(connection)
    assert deleted == [f"//holdfast/locks/job/{place}"]
