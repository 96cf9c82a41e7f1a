"""Bad arguments: refused by name and value, before anything is asked of the engine."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import holdfast

from .stage import Stage

pytestmark = pytest.mark.core

BAD_TTL: list[Any] = [0, -1, -0.5, 0.001, math.nan, math.inf, -math.inf, 86_401, "30", b"1", [1]]
BAD_TIMEOUT: list[Any] = [-2, -0.5, math.nan, -math.inf, "5", [1]]
BAD_SPAN: list[Any] = [0, -1, math.nan, "5", [1]]
BAD_NAME: list[Any] = ["", "nul\0inside", "x" * 513, "é" * 257, "\ud800", b"bytes", 7, None]

BAD_OF_LOCK: dict[str, list[Any]] = {
    "name": BAD_NAME,
    "ttl": BAD_TTL,
    "timeout": BAD_TIMEOUT,
    "max_hold": BAD_SPAN,
    "retry": BAD_SPAN,
}
BAD_OF_CLIENT: dict[str, list[Any]] = {
    "url": [7, "", "nonsense", "gopher://x", b"memory://"],
    "prefix": [7, b"x", "nul\0inside"],
    "ttl": BAD_TTL,
}


@contextmanager
def refused(argument: str, value: object) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError) as error:
        refusal = error
    else:
        pytest.fail(f"{argument}={value!r} was not refused")
    assert argument in str(refusal)
    beginning = repr(value).partition("://")[0][:12].rstrip("'\"")  # a long one may be cut short
    assert beginning in str(refusal)
    if not isinstance(value, (str, int, float)):
        assert isinstance(refusal, TypeError)


@pytest.mark.parametrize("argument", BAD_OF_LOCK)
async def test_bad_arguments_of_a_lock(stage: Stage, argument: str) -> None:
    (ann,) = stage.cast("ann")
    for value in BAD_OF_LOCK[argument]:
        with refused(argument, value):
            ann.lock(**{"name": "door", argument: value})
    assert stage.backend.untouched()


@pytest.mark.parametrize("argument", BAD_OF_CLIENT)
async def test_bad_arguments_of_a_client(stage: Stage, argument: str) -> None:
    make = holdfast.Client if stage.mode == "sync" else holdfast.AsyncClient
    for value in BAD_OF_CLIENT[argument]:
        with refused(argument, value):
            make(**{"url": stage.backend.url, argument: value})
    assert stage.backend.untouched()


async def test_an_option_that_no_url_knows(stage: Stage) -> None:
    with pytest.raises((ValueError, TypeError), match="tll"):
        stage.client(f"{stage.backend.url}?tll=30")
    with pytest.raises((ValueError, TypeError), match="ttl"):
        stage.client(f"{stage.backend.url}?ttl=soon")
    assert stage.backend.untouched()


async def test_an_option_of_the_url(stage: Stage) -> None:
    mark = "&" if "?" in stage.backend.url else "?"
    ann = stage.actor("ann", stage.client(f"{stage.backend.url}{mark}ttl={stage.ttl:g}"))
    lease = await ann(ann.lock("door").acquire)
    assert lease.ttl == pytest.approx(stage.ttl)


async def test_bad_timeout_of_an_acquire(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    for value in BAD_TIMEOUT:
        with refused("timeout", value):
            await ann(ann.lock("door").acquire, timeout=value)
    assert stage.backend.untouched()


async def test_not_blocking_and_a_timeout_contradict_each_other(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    with pytest.raises(ValueError, match="timeout"):
        await ann(ann.lock("door").acquire, blocking=False, timeout=5)
    assert stage.backend.untouched()


async def test_bad_ttl_of_an_extend(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    lease = await ann(ann.lock("door").acquire)
    for value in BAD_TTL:
        with refused("ttl", value):
            await ann(lease.extend, ttl=value)
    assert lease.held


async def test_bad_name_of_an_inspection(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    for value in BAD_NAME:
        for call in (ann.client.inspect, ann.client.break_lock):
            with refused("name", value):
                await ann(call, value)
    assert stage.backend.untouched()


async def test_bad_prefix_of_a_list(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    for value in (7, None, b"x"):
        with refused("prefix", value):
            await ann(ann.client.leases, prefix=value)
    assert stage.backend.untouched()


async def test_a_callback_that_cannot_be_called(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    lease = await ann(ann.lock("door").acquire)
    with pytest.raises(TypeError, match="callback"):
        lease.on_lost("ring")


async def test_a_switch_that_is_no_switch(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    for option in ("renew", "reentrant"):
        with refused(option, "no"):
            ann.lock("door", **{option: "no"})
    assert stage.backend.untouched()


@pytest.mark.mode("sync")
async def test_only_tasks_can_be_cancelled_on_loss(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    with pytest.raises(TypeError, match="cancel_on_loss"):
        ann.lock("door", cancel_on_loss=True)
