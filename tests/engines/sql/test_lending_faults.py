"""What can happen to a connection that a user's pool has lent, and to the pool itself."""

import asyncio
import warnings
from contextlib import suppress

import pytest

import holdfast
from tests.children import in_child
from tests.contract.steps import Cut, cut_everywhere, cut_short
from tests.engines.redis.party import Party
from tests.engines.sql.databases import Database
from tests.engines.sql.lenders import KINDS, OF_EACH_WAY, OF_THREADS, Lend
from tests.patience import wait_for

pytestmark = pytest.mark.slow

OF_TASKS = pytest.mark.parametrize(
    "lender", [kind for kind, (_, colour) in KINDS.items() if colour == "async"]
)


def test_all_sessions_are_ended(lend: Lend, home: Database) -> None:
    """That which is kept, and those in the pool, which it gives away all the same."""
    user = lend(3)
    ann = user.party
    taken = [user.take() for _ in range(3)]
    for each in taken:
        user.put(each)
    user.settles_at(0)
    lease = ann.takes()
    dead = home.other_sessions()
    assert len(dead) >= 3
    for number in dead:
        home.kill_session(number)
    wait_for(lambda: not dead & home.other_sessions())
    ann(lease.extend)
    ann(lease.release)
    assert ann.takes("another").held
    user.leave()
    user.settles_at(0)


@OF_EACH_WAY
def test_a_session_is_ended_in_the_midst_of_a_statement(
    lend: Lend, home: Database, rival: Party
) -> None:
    user = lend(1)
    number = user.session_id()
    lease = user.party.takes()
    with home.locker("holdfast_leases") as lock_rows:
        lock_rows()
        extending = user.party.begin(lease.extend)
        wait_for(home.is_blocking)
        home.kill_session(number)
        wait_for(lambda: number not in home.other_sessions())
    extending.result(20)
    user.party(lease.release)
    user.leave()
    user.settles_at(0)
    assert user.session_id() != number


@OF_EACH_WAY
def test_a_statement_that_is_not_answered_in_time(lend: Lend, home: Database) -> None:
    user = lend(1)
    before, number = user.session(), user.session_id()
    lease = user.party.takes(ttl=3.0, renew=False)
    with home.silence(), pytest.raises(holdfast.EngineUnavailable, match="not extended"):
        user.party(lease.extend)
    user.leave()
    assert user.session_id() != number, "its connection was not for others"
    assert user.session() == before


@OF_EACH_WAY
def test_a_pool_is_closed_under_us(lend: Lend, home: Database, lender: str) -> None:
    user = lend(1)
    number = user.session_id()
    ann, lease = user.party, user.party.takes()
    user.dispose()
    ann(lease.extend)
    home.kill_session(number)
    wait_for(lambda: number not in home.other_sessions())
    if "SQLAlchemy" in lender:
        ann.insists(lease.release)  # an engine that was disposed of makes another pool
        assert ann.takes().held
    else:
        with pytest.raises(holdfast.EngineUnavailable, match="closed"):
            ann(lease.release)
        assert not lease.held


@OF_EACH_WAY
def test_a_pool_is_closed_first(lend: Lend, home: Database) -> None:
    user = lend(1)
    number = user.session_id()
    user.party.takes()
    user.dispose()
    user.leave()
    wait_for(lambda: number not in home.other_sessions())


@OF_TASKS
def test_cancelled_at_every_await(
    lend: Lend, rival: Party, caplog: pytest.LogCaptureFixture
) -> None:
    """With the only connection of a pool: one that was lost there would be missed at once."""
    user = lend(1)
    before = user.session()

    async def attempt(cut: Cut) -> bool:
        client = user.another_client()
        lock = client.lock("job")

        async def section() -> None:
            async with lock:
                await client.inspect("job")

        reached = await cut_short(section(), cut)
        async with client.lock("job", timeout=20):
            pass
        await client.aclose()
        return reached

    async def attempts() -> None:
        assert await cut_everywhere(attempt) > 2

    user.party.begin(attempts).result(60)
    assert "could not give" not in caplog.text, "the connection was there"
    user.settles_at(0)
    assert rival.tries()
    assert user.session() == before


@OF_THREADS
def test_a_forked_child(lend: Lend, lender: str, home: Database) -> None:
    user = lend(1)
    number = user.session_id()
    lease = user.party.takes()

    def child() -> None:
        with suppress(holdfast.LockError):
            lease.release()  # which is not its own
        try:
            user.client.inspect("job")
        except holdfast.EngineUnavailable as error:
            assert "parent process" in str(error)  # noqa: PT017 - no test here
        else:
            raise AssertionError("it was lent a connection of its parent's")
        if "SQLAlchemy" in lender:
            user.pool.dispose(close=False)
            assert user.client.inspect("job").holder == lease.holder
            user.client.close()

    in_child(child)
    user.party(lease.extend)
    user.party(lease.release)
    user.leave()
    assert user.session_id() == number, "it was left alone"


@OF_TASKS
def test_a_client_that_is_dropped_gives_its_connection_back(lend: Lend) -> None:
    user = lend(1)

    async def drop() -> None:
        client = user.another_client()
        await client.inspect("job")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            del client
            await asyncio.sleep(0)

    user.party(drop)
    user.settles_at(0)
    assert user.party.takes().held
