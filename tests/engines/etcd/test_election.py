"""A release under asyncio in the middle of an election: it is waited out."""

import asyncio
from typing import Any
from urllib.parse import urlsplit

import pytest

from holdfast.core.messages import Acquire, Done, Granted, Release
from holdfast.core.ports import StoreHost
from holdfast.drivers.common import clock
from holdfast.engines.etcd import _cluster
from holdfast.engines.etcd.aio import AsyncEtcdStore
from holdfast.engines.etcd.commands import Call, KeepAlives
from holdfast.engines.etcd.connection import Connection, NoAnswer
from tests.equipment.servers.etcd import EtcdServer

pytestmark = pytest.mark.slow

LASTS = 4
"""Calls that find no leader: more than an endpoint that is merely silent would be sent."""


class Electing(AsyncEtcdStore):
    """On a real server, which seems to have no leader for some calls."""

    leaderless = 0

    async def _send(
        self, step: list[Call] | KeepAlives, connection: Connection, until: float
    ) -> list[Any]:
        if self.leaderless > 0:
            self.leaderless -= 1
            raise NoAnswer("no leader", electing=True)
        return await super()._send(step, connection, until)


@pytest.mark.parametrize("holders", [("ann",), ("ann", "ben")], ids=["one", "several"])
def test_an_election_while_leases_are_given_back(
    server: EtcdServer, holders: tuple[str, ...]
) -> None:

    async def story() -> None:
        host = StoreHost(clock, lambda holder: None, lambda event: None)
        store = Electing(_cluster(urlsplit(server.url), {}), host, {})
        for each in holders:
            [answer] = await store.ask((Acquire(each, each, 30),), clock() + 10)
            assert isinstance(answer, Granted)
        store.leaderless = LASTS * len(holders)
        answers = await store.ask([Release(each, each) for each in holders], clock() + 10)
        assert [type(each) for each in answers] == [Done] * len(holders)
        await store.close()

    asyncio.run(story())
    assert server.keys() == []
