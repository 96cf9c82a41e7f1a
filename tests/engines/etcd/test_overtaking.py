"""Under asyncio, no release overtakes a request that it undoes."""

import asyncio
from typing import Any

from holdfast.core.messages import Acquire, Failed, Release
from holdfast.core.ports import StoreHost
from holdfast.drivers.common import clock
from holdfast.engines.etcd.aio import AsyncEtcdStore
from holdfast.engines.etcd.connection import Cluster


class Silent(AsyncEtcdStore):
    """Of servers that never answer."""

    sent = 0

    async def _send(self, *_: Any) -> list[Any]:
        self.sent += 1
        await asyncio.Event().wait()
        raise NotImplementedError


def test_a_release_of_several_waits_for_the_acquire_of_each() -> None:
    """The renewer sends pending releases together, as after several tasks were cancelled."""

    async def story() -> None:
        host = StoreHost(clock, lambda holder: None, lambda event: None)
        store = Silent(Cluster(("localhost:1",)), host, {})
        acquiring = asyncio.create_task(store.ask([Acquire("job", "second", 30)], clock() + 30))
        await asyncio.sleep(0.01)
        releases = [Release("job", "first"), Release("job", "second")]
        for answer in await asyncio.wait_for(store.ask(releases, clock() + 0.01), 30):
            assert isinstance(answer, Failed)
            assert "pending" in str(answer)
        assert store.sent == 1
        acquiring.cancel()

    asyncio.run(story())
