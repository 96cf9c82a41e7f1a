"""`protocol=getset` by itself: what it says to the server, what it keeps there, what it refuses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis

import holdfast
from holdfast.core.messages import (
    DONE,
    NOT_YOURS,
    Acquire,
    Answer,
    Break,
    Extend,
    Granted,
    Held,
    Inspect,
    List,
    Listing,
    Release,
    Request,
)
from holdfast.core.ports import StoreHost
from holdfast.engines import open_engine
from holdfast.engines.redis.getset import Getset, mark
from holdfast.lab.servers.redis import RedisServer

KEY = "holdfast:door"


@pytest.fixture
def url(server: RedisServer) -> str:
    return f"{server.url}?protocol=getset&retry=0.02"


@pytest.fixture
def plain(server: RedisServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url) as plain:
        yield plain


@pytest.fixture
def client(url: str) -> Iterator[holdfast.Client]:
    with holdfast.Client(url) as client:
        yield client


class Speaker:
    """Says requests to the server as they are, by a clock that can be set."""

    def __init__(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = 0.0
        clock = SimpleNamespace(time=lambda: time.time() + self.ahead)
        monkeypatch.setattr("holdfast.engines.redis.time", clock)
        parts = urlsplit(url)
        self.around = StoreHost(time.monotonic, lambda waiter_id: None, lambda event: None)
        self.engine = open_engine(parts._replace(query=""), {"protocol": "getset"})
        self.store = self.engine.connect(self.around)

    def __call__(self, request: Request) -> Answer:
        [answer] = self.store.ask((request,), time.monotonic() + 5)
        return answer


@pytest.fixture
def say(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Speaker]:
    speaker = Speaker(url, monkeypatch)
    yield speaker
    speaker.store.close()


def test_who_asks_again_is_granted_the_same(say: Speaker, plain: redis.Redis) -> None:
    first = say(Acquire(KEY, "me", 30))
    ends: Any = plain.get(KEY)
    assert isinstance(first, Granted)
    assert say(Acquire(KEY, "me", 5)) == first
    assert plain.get(KEY) == ends, "not shortened"
    assert say(Acquire(KEY, "me", 60)) == first
    assert float(plain.get(KEY) or 0) > float(ends) + 29
    assert isinstance(say(Acquire(KEY, "you", 5)), Held)


def test_whoever_asks_just_before_its_time_is_over_hears_the_answer(say: Speaker) -> None:
    say(Acquire(KEY, "me", 30))
    late = (Acquire(KEY, "you", 5, queue=True),)
    assert isinstance(say.store.ask(late, time.monotonic())[0], Held)

    async def main() -> None:
        store = say.engine.connect_async(say.around)
        await store.ask((Inspect(KEY),), time.monotonic() + 5)
        assert isinstance((await store.ask(late, time.monotonic()))[0], Held)
        await store.close()

    asyncio.run(main())


def test_what_has_ended_is_neither_extended_nor_broken(say: Speaker, plain: redis.Redis) -> None:
    say(Acquire(KEY, "me", 30))
    say.ahead = 30.9
    assert say(Extend(KEY, "me", 30)) == DONE, "in its last second it is still nobody else's"
    say.ahead = 62.0
    assert say(Extend(KEY, "me", 30)) == NOT_YOURS
    assert say(Break(KEY)) == NOT_YOURS
    assert say(Inspect(KEY)) == Listing(())
    assert say(Release(KEY, "you")) == NOT_YOURS
    assert say(Release(KEY, "me")) == DONE
    assert plain.get(KEY) is None


def test_nothing_stays_for_ever(client: holdfast.Client, plain: redis.Redis) -> None:
    with client.lock("door"):
        keys: Any = plain.keys()
        kept = {key: plain.ttl(key) for key in keys}
    assert set(kept) == {KEY.encode(), b"{%b}:fence" % KEY.encode(), b"{%b}:holder" % KEY.encode()}
    assert all(30 < ttl <= 3700 for ttl in kept.values())
    assert plain.keys() == [b"{%b}:fence" % KEY.encode()]


def test_what_makes_no_sense_is_refused() -> None:
    for url in (
        "redlock://h1,h2,h3?protocol=getset",
        "redis://h?protocol=3",
        "redis://h?protocol=",
    ):
        with pytest.raises(ValueError, match="protocol"):
            holdfast.Client(url)
    with pytest.raises(ValueError, match="replicas"):
        holdfast.Client("redis://h?protocol=getset&replicas=1")


def test_marks_differ_and_have_one_length() -> None:
    marks = {mark(f"holder {number}") for number in range(1000)}
    assert len(marks) == 1000
    assert {len(each) for each in marks} == {12}


def test_an_empty_list_needs_no_second_question() -> None:
    phrase = Getset(keep=1, wall_clock=time.time).exchange([List("p", "", 10)])
    assert phrase.read([[b"0", []]]) == [Listing(())]
