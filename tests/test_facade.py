"""Corners of the facade that are the same on every engine."""

import asyncio
import gc
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast import AsyncClient, Client, EngineUnavailable, LockLost, UpdateTimeout


def test_a_generator_is_not_decorated_since_its_body_would_run_unlocked() -> None:
    with Client("memory://facade") as client:
        with pytest.raises(TypeError, match="generator"):

            @client.lock("job")
            def numbers() -> Iterator[int]:
                yield 1

        async def work() -> None: ...

        with pytest.raises(TypeError, match="async"):
            asyncio.run(client.lock("job")(lambda: work())())
        assert client.inspect("job") is None


@pytest.mark.parametrize("kind", ["or_skip", "once", "lock_all"])
def test_a_lease_outlives_what_its_block_was_entered_with(kind: str) -> None:
    with Client("memory://outlives") as client:
        makers: dict[str, Callable[[], Any]] = {
            "or_skip": lambda: client.lock("job").or_skip,
            "once": lambda: client.once("job", every=60),
            "lock_all": lambda: client.lock_all(["job", "other"]),
        }
        lease = makers[kind]().__enter__()
        gc.collect()
        assert lease.held
        lease.release()


@pytest.mark.parametrize("argument", ["ttl", "timeout", "retry", "max_hold"])
def test_a_number_too_large_for_a_clock_is_refused_by_name(argument: str) -> None:
    with Client("memory://facade") as client, pytest.raises(ValueError, match=f"{argument}: "):
        client.lock("job", **{argument: 10**400})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "error",
    [
        LockLost("job", 7, "why"),
        EngineUnavailable("no", {"n": "x"}),
        UpdateTimeout("stock", 10, 3),
    ],
)
def test_errors_keep_their_facts_and_notes_when_pickled(error: Exception) -> None:
    error.add_note("a note")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert again.__notes__ == ["a note"]


def test_nested_blocks_that_are_cancelled_on_loss_leave_as_the_loss() -> None:
    async def main() -> None:
        async with AsyncClient("memory://facade-nested") as client:
            lock = client.lock("job", ttl=0.5, renew=False, reentrant=True, cancel_on_loss=True)
            with pytest.raises(LockLost):
                async with lock, lock:
                    await asyncio.sleep(60)
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0

    asyncio.run(main())


def test_a_cell_keeps_its_client() -> None:
    client = Client("memory://facade-cell")
    cell = client.cell("stock")
    assert cell.set("1", expect=0)
    del client
    gc.collect()
    assert cell.get() == ("1", 1)
    cell._client.close()  # type: ignore[attr-defined]


def test_an_async_callback_is_refused() -> None:
    async def callback(lease: object) -> None: ...

    with Client("memory://facade") as client, client.lock("job") as lease:
        refused = pytest.raises(TypeError, match="callback: ")
        with refused:
            lease.on_lost(callback)
