"""Worker threads that ask for asyncio: what was cancelled is not overtaken."""

import asyncio
import threading
import time
from collections.abc import Sequence

import pytest

from holdfast.core.messages import DONE, Acquire, Answer, Extend, Failed, Release, Request
from holdfast.engines.offload import Offloaded
from tests.patience import wait_for

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


def test_a_release_of_several_does_not_overtake_any_of_their_acquires() -> None:
    """The renewer sends pending releases together, as after several tasks were cancelled."""

    async def main() -> None:
        slow = Slow()
        store = Offloaded(slow, "slow", time.monotonic, workers=2)
        acquire = Acquire("job", "second", 30.0)
        soon, late = time.monotonic() + 0.01, time.monotonic() + PATIENCE
        acquiring = asyncio.create_task(store.ask([acquire], late))
        await asyncio.to_thread(slow.began.wait, PATIENCE)
        releases = [Release("job", "first"), Release("job", "second")]
        answers = await store.ask(releases, soon)
        assert [type(each) for each in answers] == [Failed, Failed]
        assert slow.asked == [acquire]
        slow.answers.set()
        await acquiring
        assert await store.ask(releases, late) == [DONE, DONE]
        await store.close()

    asyncio.run(main())


def test_what_is_asked_after_it_was_abandoned_is_answered() -> None:
    """A client that is closed after its loop has ended still sends its releases."""
    store = Offloaded(slow := Slow(), "slow", time.monotonic, workers=2)
    slow.answers.set()

    def ask_both() -> list[Sequence[Answer]]:
        async def main() -> list[Sequence[Answer]]:
            until = time.monotonic() + PATIENCE
            asked = [store.ask([Release("job", holder)], until) for holder in ("me", "you")]
            return await asyncio.wait_for(asyncio.gather(*asked), PATIENCE)

        return asyncio.run(main())

    assert ask_both() == [[DONE], [DONE]]
    store.abandon()
    assert ask_both() == [[DONE], [DONE]]
    asyncio.run(asyncio.wait_for(store.close(), PATIENCE))


class Gated:
    """A store that answers each key when it is told to."""

    def __init__(self, *keys: str) -> None:
        self.asked: list[str] = []
        self.gates = {key: threading.Event() for key in keys}
        self.began = threading.Semaphore(0)

    def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        [request] = requests
        assert isinstance(request, (Acquire, Extend, Release))
        self.asked.append(request.key)
        self.began.release()
        self.gates[request.key].wait(PATIENCE)
        return [DONE]

    def close(self) -> None:
        """Nothing to release."""

    def forget(self) -> None:
        raise NotImplementedError


def test_the_end_of_one_request_is_not_taken_for_that_of_another() -> None:
    """The renewer and a caller may both release, and one is done before the other."""

    async def main() -> None:
        gated = Gated("acquire", "first", "second", "third")
        store = Offloaded(gated, "gated", time.monotonic, workers=4)

        def ask(request: Request, until: float = PATIENCE) -> asyncio.Task[Sequence[Answer]]:
            return asyncio.create_task(store.ask([request], time.monotonic() + until))

        acquiring = ask(Acquire("acquire", "me", 30.0))
        await asyncio.to_thread(gated.began.acquire, timeout=PATIENCE)
        first, second = ask(Release("first", "me")), ask(Release("second", "me"))
        await asyncio.sleep(0)  # both wait for the acquire
        gated.gates["acquire"].set()
        await acquiring
        for _ in (first, second):
            await asyncio.to_thread(gated.began.acquire, timeout=PATIENCE)
        gated.gates["first"].set()
        await first
        [answer] = await ask(Release("third", "me"), 0.01)
        assert isinstance(answer, Failed)
        assert sorted(gated.asked) == ["acquire", "first", "second"], "the third overtook it"
        gated.gates["second"].set()
        await second
        await store.close()

    asyncio.run(main())


def no_more_threads(thread: threading.Thread) -> None:
    """In place of `Thread.start`."""
    raise RuntimeError("can't start new thread")


def test_where_no_thread_can_be_had_it_fails_until_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fault: `RuntimeError`, and no request was answered any more."""

    async def main() -> None:
        slow = Slow()
        slow.answers.set()
        store = Offloaded(slow, "slow", time.monotonic)
        until = time.monotonic() + PATIENCE
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", no_more_threads)
            [answer] = await store.ask([Acquire("job", "me", 30.0)], until)
            assert isinstance(answer, Failed)
        assert await store.ask([Release("job", "me")], until) == [DONE]
        assert slow.asked == [Release("job", "me")]
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "asked", [[], [Acquire("job", "me", 30.0)], [Extend("job", "me", 30.0, 1)]]
)
def test_it_is_closed_where_no_thread_can_be_had(
    monkeypatch: pytest.MonkeyPatch, asked: list[Request]
) -> None:
    """The faults: `RuntimeError`; a worker that had been started stayed."""
    slow = Slow()
    slow.answers.set()

    async def main() -> None:
        store = Offloaded(slow, "slow", time.monotonic)
        for request in asked:
            assert await store.ask([request], time.monotonic() + PATIENCE) == [DONE]
        slow.answers.clear()
        monkeypatch.setattr(threading.Thread, "start", no_more_threads)
        await store.close()

    before = set(threading.enumerate())
    asyncio.run(main())
    assert slow.answers.is_set()
    assert set(threading.enumerate()) <= before


def test_closing_again_after_it_was_cancelled() -> None:
    """While one worker was still asking, and the others had ended. The fault: it never ended."""
    answers = threading.Event()

    class Stuck(Slow):
        def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
            self.began.set()
            answers.wait(PATIENCE)
            return [DONE] * len(requests)

    async def main() -> None:
        stuck = Stuck()
        store = Offloaded(stuck, "stuck", time.monotonic, workers=2)
        until = time.monotonic() + PATIENCE
        asking = asyncio.create_task(store.ask([Acquire("job", "me", 30.0)], until))
        await asyncio.to_thread(stuck.began.wait, PATIENCE)
        closing = asyncio.create_task(store.close())
        await asyncio.to_thread(stuck.answers.wait, PATIENCE)
        await asyncio.to_thread(wait_for, lambda: workers() == 1)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await asyncio.wait_for(store.close(), PATIENCE)
        answers.set()
        await asking

    def workers() -> int:
        return sum("holdfast-stuck" in each.name for each in threading.enumerate())

    asyncio.run(main())
    wait_for(lambda: not workers())


def test_a_worker_whose_start_was_interrupted_ends_with_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a Ctrl-C, as the caller waited for it. The faults: what was asked about that holder later
    failed, and closing waited for a worker that the other one had ended in place of."""
    start = threading.Thread.start

    def is_interrupted(thread: threading.Thread) -> None:
        start(thread)
        monkeypatch.setattr(threading.Thread, "start", start)
        raise KeyboardInterrupt

    async def main() -> None:
        slow = Slow()
        slow.answers.set()
        store = Offloaded(slow, "slow", time.monotonic, workers=2)
        until = time.monotonic() + PATIENCE
        monkeypatch.setattr(threading.Thread, "start", is_interrupted)
        with pytest.raises(KeyboardInterrupt):
            await store.ask([Acquire("job", "me", 30.0)], until)
        assert await store.ask([Release("job", "me")], until) == [DONE]
        await asyncio.wait_for(store.close(), PATIENCE)

    before = set(threading.enumerate())
    asyncio.run(main())
    wait_for(lambda: set(threading.enumerate()) <= before)


def test_an_extension_does_not_wait_for_a_worker() -> None:
    """With all of them hanging on a server that does not answer, no other lease is to be lost."""

    async def main() -> None:
        gated = Gated("hangs", "held")
        gated.gates["held"].set()
        store = Offloaded(gated, "gated", time.monotonic, workers=2)
        until = time.monotonic() + PATIENCE
        acquires = [Acquire("hangs", holder, 30.0) for holder in ("ann", "ben", "cleo")]
        hanging = [asyncio.create_task(store.ask([each], until)) for each in acquires]
        for _ in range(2):
            await asyncio.to_thread(gated.began.acquire, timeout=PATIENCE)
        extend = Extend("held", "me", 30.0, 1)
        assert await store.ask([extend], time.monotonic() + 1) == [DONE]
        gated.gates["hangs"].set()
        await asyncio.gather(*hanging)
        await store.close()

    asyncio.run(main())


def test_a_renewal_does_not_wait_for_an_extension_that_hangs() -> None:
    async def main() -> None:
        gated = Gated("hangs", "held")
        gated.gates["held"].set()
        store = Offloaded(gated, "gated", time.monotonic)
        extend = store.ask([Extend("hangs", "me", 30.0, 1)], time.monotonic() + PATIENCE)
        hanging = asyncio.create_task(extend)
        await asyncio.to_thread(gated.began.acquire, timeout=PATIENCE)
        renewal = Extend("held", "me", 30.0, 1)
        assert await store.ask([renewal], time.monotonic() + 1) == [DONE]
        gated.gates["hangs"].set()
        await hanging
        await store.close()

    asyncio.run(main())
