"""What is given back under asyncio in the middle of an election: that passes, and is waited out."""

import asyncio
from typing import Any
from urllib.parse import urlsplit

import pytest

from holdfast.core.messages import Acquire, Done, Granted, Release
from holdfast.core.ports import StoreHost
from holdfast.drivers.common import clock
from holdfast.engines.etcd import _cluster, aio
from holdfast.engines.etcd.aio import AsyncEtcdStore
from holdfast.engines.etcd.conversation import Conversation
from holdfast.engines.etcd.lines import Line
from holdfast.engines.etcd.phrases import Call
from holdfast.engines.etcd.replies import Trouble
from tests.equipment.servers.etcd import EtcdServer

pytestmark = pytest.mark.slow

LASTS = 4
"""Calls that find no leader: more than an endpoint that is merely silent would be sent."""


class Electing(Conversation):
    """With a real server, which seems to have no leader for some calls."""

    leaderless = 0

    async def _try(self, call: Call, line: Line, until: float) -> Any:
        if Electing.leaderless > 0:
            Electing.leaderless -= 1
            raise Trouble("no leader", passing=True)
        return await super()._try(call, line, until)


@pytest.mark.parametrize("holders", [("ann",), ("ann", "ben")], ids=["one", "several"])
def test_an_election_while_leases_are_given_back(
    server: EtcdServer, holders: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aio, "Conversation", Electing)

    async def story() -> None:
        around = StoreHost(clock, lambda holder: None, lambda event: None)
        store = AsyncEtcdStore(_cluster(urlsplit(server.url), {}), around)
        for each in holders:
            [answer] = await store.ask((Acquire(each, each, 30),), clock() + 10)
            assert isinstance(answer, Granted)
        Electing.leaderless = LASTS * len(holders)
        answers = await store.ask([Release(each, each) for each in holders], clock() + 10)
        assert [type(each) for each in answers] == [Done] * len(holders)
        await store.close()

    asyncio.run(story())
    assert server.keys() == []
