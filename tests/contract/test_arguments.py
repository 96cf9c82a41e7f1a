"""Bad arguments: refused by name and value, before anything is asked of the engine."""

from __future__ import annotations

import math
from typing import Any

import pytest

import holdfast

from .stage import Stage

BAD_TTL = [0, -1, -0.5, 0.001, math.nan, math.inf, -math.inf, 86_401, "30", b"1", [1]]
BAD_TIMEOUT = [-2, -0.5, math.nan, -math.inf, "5", [1]]
BAD_SPAN = [0, -1, math.nan, "5", [1]]
BAD_NAME = ["", "nul\0inside", "x" * 513, "é" * 257, "\ud800", b"bytes", 7, None]

BAD_OF_LOCK = [
    *(("name", value) for value in BAD_NAME),
    *(("ttl", value) for value in BAD_TTL),
    *(("timeout", value) for value in BAD_TIMEOUT),
    *(("max_hold", value) for value in BAD_SPAN),
    *(("retry", value) for value in BAD_SPAN),
]
BAD_OF_CLIENT = [
    *(("url", value) for value in (7, "", "nonsense", "gopher://x", b"memory://")),
    *(("prefix", value) for value in (7, b"x", "nul\0inside")),
    *(("ttl", value) for value in BAD_TTL),
]


def shown(value: object) -> str:
    return repr(value)[:24]


def assert_refused(error: BaseException, argument: str, value: object) -> None:
    text = str(error)
    assert argument in text
    beginning = repr(value).partition("://")[0][:12].rstrip("'\"")  # a long one may be cut short
    assert beginning in text
    if not isinstance(value, (str, int, float)):
        assert isinstance(error, TypeError)


@pytest.mark.parametrize(("argument", "value"), BAD_OF_LOCK, ids=shown)
async def test_bad_arguments_of_a_lock(stage: Stage, argument: str, value: Any) -> None:
    (ann,) = stage.cast("ann")
    arguments = {"name": "door", argument: value}
    with pytest.raises((ValueError, TypeError)) as error:
        ann.lock(**arguments)
    assert_refused(error.value, argument, value)
    assert stage.place.untouched()


@pytest.mark.parametrize(("argument", "value"), BAD_OF_CLIENT, ids=shown)
async def test_bad_arguments_of_a_client(stage: Stage, argument: str, value: Any) -> None:
    make = holdfast.Client if stage.colour == "sync" else holdfast.AsyncClient
    arguments = {"url": stage.place.url, argument: value}
    with pytest.raises((ValueError, TypeError)) as error:
        make(**arguments)
    assert_refused(error.value, argument, value)
    assert stage.place.untouched()


async def test_an_option_that_no_url_knows(stage: Stage) -> None:
    with pytest.raises((ValueError, TypeError), match="tll"):
        stage.client(f"{stage.place.url}?tll=30")
    with pytest.raises((ValueError, TypeError), match="ttl"):
        stage.client(f"{stage.place.url}?ttl=soon")
    assert stage.place.untouched()


async def test_an_option_of_the_url(stage: Stage) -> None:
    mark = "&" if "?" in stage.place.url else "?"
    ann = stage.actor("ann", stage.client(f"{stage.place.url}{mark}ttl={stage.ttl:g}"))
    lease = await ann(ann.lock("door").acquire)
    assert lease.ttl == pytest.approx(stage.ttl)


@pytest.mark.parametrize("value", BAD_TIMEOUT, ids=shown)
async def test_bad_timeout_of_an_acquire(stage: Stage, value: Any) -> None:
    (ann,) = stage.cast("ann")
    with pytest.raises((ValueError, TypeError)) as error:
        await ann(ann.lock("door").acquire, timeout=value)
    assert_refused(error.value, "timeout", value)
    assert stage.place.untouched()


async def test_not_blocking_and_a_timeout_contradict_each_other(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    with pytest.raises(ValueError, match="timeout"):
        await ann(ann.lock("door").acquire, blocking=False, timeout=5)
    assert stage.place.untouched()


@pytest.mark.parametrize("value", BAD_TTL, ids=shown)
async def test_bad_ttl_of_an_extend(stage: Stage, value: Any) -> None:
    (ann,) = stage.cast("ann")
    lease = await ann(ann.lock("door").acquire)
    with pytest.raises((ValueError, TypeError)) as error:
        await ann(lease.extend, ttl=value)
    assert_refused(error.value, "ttl", value)
    assert lease.held


@pytest.mark.parametrize("value", BAD_NAME, ids=shown)
async def test_bad_name_of_an_inspection(stage: Stage, value: Any) -> None:
    (ann,) = stage.cast("ann")
    for call in (ann.client.inspect, ann.client.break_lock):
        with pytest.raises((ValueError, TypeError)) as error:
            await ann(call, value)
        assert_refused(error.value, "name", value)
    assert stage.place.untouched()


@pytest.mark.parametrize("value", [7, None, b"x"], ids=shown)
async def test_bad_prefix_of_a_list(stage: Stage, value: Any) -> None:
    (ann,) = stage.cast("ann")
    with pytest.raises((ValueError, TypeError)) as error:
        await ann(lambda: ann.client.leases(prefix=value))
    assert_refused(error.value, "prefix", value)
    assert stage.place.untouched()


async def test_a_callback_that_cannot_be_called(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    lease = await ann(ann.lock("door").acquire)
    with pytest.raises(TypeError, match="callback"):
        lease.on_lost("ring")


@pytest.mark.parametrize("option", ["renew", "reentrant"])
async def test_a_switch_that_is_no_switch(stage: Stage, option: str) -> None:
    (ann,) = stage.cast("ann")
    with pytest.raises((ValueError, TypeError)) as error:
        ann.lock("door", **{option: "no"})
    assert_refused(error.value, option, "no")
    assert stage.place.untouched()


@pytest.mark.colour("sync")
async def test_only_tasks_can_be_cancelled_on_loss(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    with pytest.raises(TypeError, match="cancel_on_loss"):
        ann.lock("door", cancel_on_loss=True)
