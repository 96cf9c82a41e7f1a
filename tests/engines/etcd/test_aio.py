"""Releases under asyncio: none overtakes a request that it undoes; an election is waited out."""

import asyncio
from typing import Any
from urllib.parse import urlsplit

import pytest

from holdfast.core.messages import Acquire, Done, Failed, Granted, Release
from holdfast.core.ports import StoreHost
from holdfast.drivers.common import clock
from holdfast.engines.etcd import _cluster
from holdfast.engines.etcd.aio import AsyncEtcdStore
from holdfast.engines.etcd.connection import NoAnswer
from tests.equipment.servers.etcd import EtcdServer

HOST = StoreHost(clock, lambda holder: None, lambda event: None)

LASTS = 4
"""Calls that find no leader: more than an endpoint that is merely silent would be sent."""


class Silent(AsyncEtcdStore):
    """Of servers that never answer."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.sent, self.began = 0, asyncio.Event()

    async def _send(self, *_: Any) -> list[Any]:
        self.sent += 1
        self.began.set()
        await asyncio.Event().wait()
        raise NotImplementedError


class Electing(AsyncEtcdStore):
    """On a real server, which seems to have no leader for some calls."""

    leaderless = 0

    async def _send(self, *step: Any) -> list[Any]:
        if self.leaderless > 0:
            self.leaderless -= 1
            raise NoAnswer("no leader", electing=True)
        return await super()._send(*step)


def test_a_release_of_several_waits_for_the_acquire_of_each() -> None:
    """The renewer sends pending releases together, as after several tasks were cancelled."""

    async def story() -> None:
        store = Silent(_cluster(urlsplit("etcd://localhost:1"), {}), HOST, {})
        acquiring = asyncio.create_task(store.ask([Acquire("job", "second", 30)], clock() + 30))
        await asyncio.wait_for(store.began.wait(), 30)
        releases = [Release("job", "first"), Release("job", "second")]
        for answer in await asyncio.wait_for(store.ask(releases, clock() + 0.01), 30):
            assert isinstance(answer, Failed)
            assert "pending" in str(answer)
        assert store.sent == 1
        acquiring.cancel()

    asyncio.run(story())


@pytest.mark.slow
@pytest.mark.parametrize("holders", [("ann",), ("ann", "ben")], ids=["one", "several"])
def test_an_election_while_leases_are_released(
    server: EtcdServer, holders: tuple[str, ...]
) -> None:

    async def story() -> None:
        store = Electing(_cluster(urlsplit(server.url), {}), HOST, {})
        for each in holders:
            [answer] = await store.ask((Acquire(each, each, 30),), clock() + 10)
            assert isinstance(answer, Granted)
        store.leaderless = LASTS * len(holders)
        answers = await store.ask([Release(each, each) for each in holders], clock() + 10)
        assert [type(each) for each in answers] == [Done] * len(holders)
        await store.close()

    asyncio.run(story())
    assert server.keys() == []
