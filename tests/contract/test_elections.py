"""Elections: one leader among the candidates, and what all clients see of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import AcquireTimeout, ClientClosed, LockLost

from .actors import Actor
from .stage import A_WHILE, AT_ONCE, Stage
from .steps import Cut, cut_everywhere, cut_short
from .test_cancellation import assert_free, nothing_left, warm

pytestmark = pytest.mark.turns


def steps_of(stage: Stage, election: Any) -> Callable[[], Any]:
    """What gives the next change, each time it is called."""
    changes = election.observe()
    return (lambda: next(changes)) if stage.mode == "sync" else changes.__anext__


async def sees(actor: Actor, election: Any) -> tuple[str, int] | None:
    leader = await actor(election.leader)
    return leader and (leader.value, leader.term)


async def test_a_leader_without_a_value(stage: Stage) -> None:
    """On every engine, also where there is no cell to publish it in."""
    ann, ben = stage.cast("ann", "ben")
    watching = ben.client.election("boss", retry=0.02)
    changes = steps_of(stage, watching)
    assert await ben(changes) is None
    lease = await ann(ann.client.election("boss").campaign)
    assert await sees(ben, watching) == ("", lease.fence)
    assert (await ben(changes)).holder == lease.holder
    await ann(lease.release)
    assert await ben(changes) is None
    assert await ann(ann.client.election("boss").run, ann.function(fence_of)) > lease.fence


async def fence_of(lease: Any) -> int:
    return int(lease.fence)


@pytest.mark.needs("cells")
class TestCandidates:
    async def test_the_winner_leads_and_publishes(self, stage: Stage) -> None:
        ann, ben = stage.cast("ann", "ben")
        election = ann.client.election("boss", value="ann:80", label="blue")
        watching = ben.client.election("boss")
        assert stage.backend.untouched()
        assert (election.name, election.value) == ("boss", "ann:80")
        assert await ben(watching.leader) is None
        lease = await ann(election.campaign)
        leader = await ben(watching.leader)
        assert (leader.value, leader.term, leader.holder) == ("ann:80", lease.fence, lease.holder)
        assert leader.label.text == "blue"
        assert await ann(election.leader) == leader
        await ann(lease.release)
        assert await ben(watching.leader) is None

    async def test_terms_follow_each_other(self, stage: Stage) -> None:
        ann, ben, eve = stage.cast("ann", "ben", "eve")
        first = await ann(ann.client.election("boss", value="ann").campaign)
        waiting = ben.begins(ben.client.election("boss", value="ben").campaign)
        await stage.settles(eve, "boss")
        await ann(first.release)
        second = await asyncio.wait_for(waiting, AT_ONCE)
        assert second.fence > first.fence
        assert await sees(eve, eve.client.election("boss")) == ("ben", second.fence)
        await ben(second.release)
        third = await ann(ann.client.election("boss", value="ann, again").campaign)
        assert await sees(eve, eve.client.election("boss")) == ("ann, again", third.fence)

    async def test_a_winner_that_has_not_published_is_no_leader(self, stage: Stage) -> None:
        """It died in between, or holds the lock for another reason: no former value is shown."""
        ann, ben = stage.cast("ann", "ben")
        election = ann.client.election("boss", value="ann")
        await ann((await ann(election.campaign)).release)
        held = await stage.tries(ben, ben.lock("boss"))
        assert await ann(election.leader) is None
        await ben(held.release)
        lease = await ann(election.campaign)
        assert await sees(ben, ben.client.election("boss")) == ("ann", lease.fence)

    async def test_a_later_term_is_never_replaced(self, stage: Stage) -> None:
        ann, ben = stage.cast("ann", "ben")
        lease = await ann(ann.client.election("boss", value="ann").campaign)
        await ann(lease.release)
        cell = ben.client.cell("election:boss")
        record = json.loads((await ben(cell.get)).value)
        later = json.dumps(record | {"term": lease.fence + 10**15})
        await ben(cell.update, lambda value: later)
        with pytest.raises(LockLost, match="later term"):
            await ann(ann.client.election("boss", value="stale").campaign)
        assert (await ben(cell.get)).value == later
        await stage.until(lambda: stage.takes(ben, "boss"))
        held = await stage.tries(ben, ben.lock("boss"))
        assert await ann(ann.client.election("boss").leader) is None
        await ben(held.release)

    async def test_a_campaign_that_does_not_win_in_time(self, stage: Stage) -> None:
        ann, ben = stage.cast("ann", "ben")
        lease = await ann(ann.client.election("boss", value="ann").campaign)
        for timeout in (0, A_WHILE):
            with pytest.raises(AcquireTimeout, match="'boss'"):
                await ben(ben.client.election("boss", value="ben").campaign, timeout)
        assert await sees(ben, ben.client.election("boss")) == ("ann", lease.fence)

    async def test_a_cell_that_holds_something_else(self, stage: Stage) -> None:
        ann, ben = stage.cast("ann", "ben")
        election = ann.client.election("boss", value="ann")
        for content in ("hello", b"\xff", "7", '{"value": 1, "term": 2, "holder": "x"}', "{}"):
            await ben(ben.client.cell("election:boss").update, lambda value, to=content: to)
            with pytest.raises(ValueError, match="election:boss"):
                await ann(election.campaign)
            await stage.until(lambda: stage.takes(ben, "boss"))
            held = await stage.tries(ben, ben.lock("boss"))
            with pytest.raises(ValueError, match="election:boss"):
                await ann(election.leader)
            await ben(held.release)

    @pytest.mark.core
    async def test_bad_arguments_are_refused(self, stage: Stage) -> None:
        client = stage.client()
        for value in (None, b"bytes", 7, "\ud800"):
            with pytest.raises((ValueError, TypeError), match="value"):
                client.election("boss", value=value)
        with pytest.raises(ValueError, match="name"):
            client.election("x" * 510)
        assert stage.backend.untouched()


@pytest.mark.needs("cells")
class TestObserve:
    async def test_the_present_and_every_change(self, stage: Stage) -> None:
        ann, ben = stage.cast("ann", "ben")
        changes = steps_of(stage, ben.client.election("boss", retry=0.02))
        assert await ben(changes) is None
        lease = await ann(ann.client.election("boss", value="ann").campaign)
        assert (await ben(changes)).term == lease.fence
        waiting = ben.begins(changes)
        await ann(lease.release)
        assert await asyncio.wait_for(waiting, AT_ONCE) is None

    async def test_a_slow_reader_gets_the_latest(self, stage: Stage) -> None:
        ann, ben = stage.cast("ann", "ben")
        changes = steps_of(stage, ben.client.election("boss", retry=0.02))
        assert await ben(changes) is None
        for value in "abc":
            lease = await ann(ann.client.election("boss", value=value).campaign)
            if value != "c":
                await ann(lease.release)
        assert (await ben(changes)).value == "c"

    @pytest.mark.core
    async def test_a_value_that_is_changed_within_a_term(self, stage: Stage) -> None:
        ann, ben = stage.cast("ann", "ben")
        changes = steps_of(stage, ben.client.election("boss", retry=0.02))
        lease = await ann(ann.client.election("boss", value="ann").campaign)
        before = await ben(changes)
        await ann(
            ann.client.cell("election:boss").update,
            lambda record: json.dumps(json.loads(record) | {"value": "moved"}),
        )
        after = await ben(changes)
        assert (before.value, after.value) == ("ann", "moved")
        assert before.term == after.term == lease.fence

    async def test_it_ends_with_its_client(self, stage: Stage) -> None:
        ann, ben = stage.cast("ann", "ben")
        watching = ben.client.election("boss")
        lease = await ann(ann.client.election("boss", value="ann").campaign)
        seen = ben.begins(watching.observe)  # an actor gives what it iterated over, as a list
        await stage.passes(A_WHILE)
        await stage.close(ben.client)
        assert [leader.term for leader in await asyncio.wait_for(seen, AT_ONCE)] == [lease.fence]
        with pytest.raises(ClientClosed):
            await ben(watching.observe)

    @pytest.mark.core
    async def test_of_a_closed_client(self, stage: Stage) -> None:
        (ann,) = stage.cast("ann")
        election = ann.client.election("boss", value="ann")
        await stage.close(ann.client)
        for call in (election.leader, election.campaign, election.observe):
            with pytest.raises(ClientClosed):
                await ann(call)


@pytest.mark.core
@pytest.mark.needs("cells")
class TestRun:
    async def test_it_gives_what_the_work_gives(self, stage: Stage) -> None:
        ann, ben = stage.cast("ann", "ben")

        async def work(lease: Any) -> int:
            assert await sees(ben, ben.client.election("boss")) == ("ann", lease.fence)
            return int(lease.fence)

        election = ann.client.election("boss", value="ann")
        assert await ann(election.run, ann.function(work)) > 0
        assert await stage.takes(ben, "boss")

    async def test_it_campaigns_again_after_a_loss(self, stage: Stage) -> None:
        ann, ben = stage.cast("ann", "ben")
        terms: list[int] = []

        async def work(lease: Any) -> str:
            terms.append(lease.fence)
            if len(terms) < 3:
                await ben(ben.client.break_lock, "boss")
                await stage.until(lambda: lease.lost)
            if len(terms) == 2:
                lease.ensure_held()
            return "done"

        election = ann.client.election("boss", value="ann", ttl=stage.ttl)
        assert await ann(election.run, ann.function(work)) == "done"
        assert len(terms) == 3
        assert terms == sorted(set(terms))
        assert await stage.takes(ben, "boss")

    @pytest.mark.parametrize("error", [KeyError("its own"), TimeoutError("its own")])
    async def test_what_the_work_raises(self, stage: Stage, error: Exception) -> None:
        ann, ben = stage.cast("ann", "ben")

        async def work(lease: Any) -> None:
            raise error

        with pytest.raises(type(error), match="its own"):
            await ann(ann.client.election("boss").run, ann.function(work))
        assert await stage.takes(ben, "boss")

    async def test_the_loss_of_another_lock_is_raised(self, stage: Stage) -> None:
        (ann,) = stage.cast("ann")

        async def work(lease: Any) -> None:
            raise LockLost("another", 7, "why not")

        with pytest.raises(LockLost, match="another"):
            await ann(ann.client.election("boss").run, ann.function(work))

    @pytest.mark.mode("sync")
    async def test_a_coroutine_function_is_no_work_for_a_thread(self, stage: Stage) -> None:
        (ann,) = stage.cast("ann")
        with pytest.raises(TypeError, match=r"work: .* is async"):
            await ann(ann.client.election("boss").run, fence_of)

    async def test_it_ends_with_its_client(self, stage: Stage) -> None:
        (ann,) = stage.cast("ann")

        async def work(lease: Any) -> None:
            await stage.close(ann.client)
            await stage.until(lambda: lease.lost)

        with pytest.raises(ClientClosed):
            await ann(ann.client.election("boss", value="ann").run, ann.function(work))

    @pytest.mark.slow
    @pytest.mark.mode("async")
    async def test_the_work_is_cancelled_before_its_term_ends(self, stage: Stage) -> None:
        """A busy machine may be late for it in one term, and hardly in each."""
        (ann,) = stage.cast("ann")
        in_time: list[bool] = []

        async def work(lease: Any) -> None:
            if any(in_time):
                return
            try:
                await asyncio.Event().wait()
            finally:
                in_time.append(lease.held)

        await ann.client.election("boss", ttl=stage.ttl, max_hold=stage.ttl).run(work)
        assert in_time[-1]
        assert await stage.takes(ann, "boss")

    @pytest.mark.mode("async")
    async def test_cancelling_it_cancels_the_work(self, stage: Stage) -> None:
        ann, ben = stage.cast("ann", "ben")
        working, ended = asyncio.Event(), asyncio.Event()

        async def work(lease: Any) -> None:
            working.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        running = asyncio.ensure_future(ann.client.election("boss", value="ann").run(work))
        await working.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert ended.is_set()
        assert await stage.takes(ben, "boss")


@pytest.mark.mode("async")
@pytest.mark.needs("cells")
@pytest.mark.parametrize("again", [None, 1], ids=["once", "twice"])
async def test_a_campaign_cancelled_anywhere(stage: Stage, again: int | None) -> None:
    ann, ben = stage.cast("ann", "ben")
    await warm(stage, ann, ben)
    election = ann.client.election("boss", value="ann", ttl=stage.long)
    await (await election.campaign()).release()

    async def attempt(cut: Cut) -> bool:
        async with nothing_left(cut):
            if not await cut_short(lead(), cut):
                return False
            await assert_free(stage, ben, "boss", cut)
            assert await ben.client.election("boss").leader() is None
        return True

    async def lead() -> None:
        async with await election.campaign():
            pass

    await cut_everywhere(attempt, again)
