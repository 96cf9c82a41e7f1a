"""Worker threads that ask for asyncio: what was cancelled is not overtaken."""

import asyncio
import threading
import time
from collections.abc import Sequence

import pytest

from holdfast.core.messages import DONE, Acquire, Answer, Failed, Release, Request
from holdfast.engines.offload import Offloaded

PATIENCE = 30.0


class Slow:
    """A store that answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.began, self.answers = threading.Event(), threading.Event()

    def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        self.asked += requests
        self.began.set()
        self.answers.wait(PATIENCE)
        return [DONE] * len(requests)

    def close(self) -> None:
        self.answers.set()

    def forget(self) -> None:
        raise NotImplementedError


def test_a_release_does_not_overtake_a_cancelled_acquire() -> None:
    """Else it would find nothing, and the acquire behind it would leave a lock until its ttl."""

    async def main() -> None:
        slow = Slow()
        store = Offloaded(slow, "slow", time.monotonic, workers=2)
        acquire, release = Acquire("job", "me", 30.0), Release("job", "me")
        soon, late = time.monotonic() + 0.01, time.monotonic() + PATIENCE
        acquiring = asyncio.create_task(store.ask([acquire], late))
        await asyncio.to_thread(slow.began.wait, PATIENCE)
        acquiring.cancel()
        with pytest.raises(asyncio.CancelledError):
            await acquiring
        [answer] = await store.ask([release], soon)
        assert isinstance(answer, Failed)
        assert slow.asked == [acquire]
        slow.answers.set()
        assert await store.ask([release], late) == [DONE]
        assert slow.asked == [acquire, release]
        await store.close()

    asyncio.run(main())
