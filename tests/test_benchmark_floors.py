"""The floors that holdfast is measured against, and how a hand-off is measured."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack

import pytest

from benchmarks.contenders import TTL
from benchmarks.redis import floors
from benchmarks.relay import Hold, Result
from benchmarks.sql.statements import KEY, Statements, mariadb_lease, postgres_lease
from holdfast.core.messages import Acquire, Release
from holdfast.engines.sql.commands import Commands
from holdfast.engines.sql.dialect import LEASES, Dialect, ServerClock
from holdfast.engines.sql.mysql import commands as mysql
from holdfast.engines.sql.postgres import commands as postgres
from holdfast.engines.sql.waiters import Waiters
from tests.equipment.servers.masters import RedisMasters

HOLDER = "host/1/program/secret"

DIALECTS: dict[str, tuple[Dialect, Callable[[], Statements]]] = {
    "postgres": (postgres.Statements(LEASES).dialect, postgres_lease),
    "mariadb": (mysql.Statements(LEASES, returns=True).dialect, mariadb_lease),
}


@pytest.mark.parametrize("name", DIALECTS)
def test_the_floor_sends_what_holdfast_sends(name: str) -> None:
    dialect, lease = DIALECTS[name]
    floor = lease()
    waiters = Waiters(lambda: 0.0, lambda holder: None)
    commands = Commands("node", dialect, ServerClock(lambda: 0.0), waiters)
    [(acquire, taking)] = next(commands.answer(Acquire(KEY, HOLDER, TTL), 5.0))
    sql, values = floor.acquire(HOLDER)
    assert sql == acquire.sql
    # But for the deadline, which is another one each time.
    differ = [n for n, pair in enumerate(zip(values, taking, strict=True)) if pair[0] != pair[1]]
    assert len(differ) == 1
    [(release, giving)] = next(commands.answer(Release(KEY, HOLDER), 0.0))
    sql, values = floor.release(HOLDER)
    assert sql == release.sql
    assert list(values) == list(giving)


async def pair_by_tasks(ports: Sequence[int]) -> None:
    async with AsyncExitStack() as stack:
        [pair] = await floors.bare_connections(ports, 1, stack)
        await pair()


@pytest.mark.slow
def test_the_floor_of_a_quorum_waits_for_a_majority() -> None:
    with RedisMasters(count=3) as masters, ExitStack() as stack:
        ports = [server.port for server in masters.servers]
        pair = floors.raw_sockets(ports, stack)
        pair()
        masters.servers[0].freeze()
        pair()
        masters.servers[0].thaw()
        masters.servers[1].freeze()
        pair()  # what the first one still owed is not taken for a reply to this
        masters.servers[1].thaw()
        asyncio.run(pair_by_tasks(ports))


def test_a_majority_completes_a_command_and_later_replies_are_skipped() -> None:
    async def main() -> None:
        tally = floors.Tally(floors.majority_of(range(5)))
        for reply in (1, 2):
            tally.take(reply)
        assert not tally.answered.done()
        for reply in (3, 4, 5):
            tally.take(reply)
        assert tally.answered.result() == 3

    asyncio.run(main())


def test_a_gap_is_from_a_release_until_the_next_one_has_the_lock() -> None:
    holds = [Hold(10.0, 11.0), Hold(11.5, 12.0), Hold(12.25, 13.0), Hold(15.0, 16.0)]
    assert Result(holds, 0).gap == 0.5
