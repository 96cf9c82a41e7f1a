"""A line between clients and their engine, which a test can watch, stop, break and interrupt."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from inspect import isawaitable
from typing import Any, TypeVar
from urllib.parse import SplitResult
from uuid import uuid4

from holdfast.core.messages import Answer, Failed, Request
from holdfast.core.ports import AsyncStore, Engine, Store
from holdfast.engines import open_engine

R = TypeVar("R")
Hook = Callable[[Request], object]

BROKEN = Failed.at("engine", "the connection was closed")


def go_on(request: Request) -> None:
    """Do nothing about a request."""


class Line:
    """What goes between all clients of one test and their engine."""

    def __init__(self) -> None:
        self.url = f"memory://{uuid4().hex}"
        self.down = False
        """Nothing goes through; every request fails at once."""
        self.before: Hook = go_on
        """Called for each request before it reaches the engine. (For asyncio, may be awaitable.)"""
        self.after: Hook = go_on
        """Called after the engine has carried it out, and before the client has the answer."""
        self.closed = 0
        """How many stores were closed."""
        self._asked: list[Request] = []

    def asked(self, kind: type[R]) -> list[R]:
        """The requests of one kind that reached the engine."""
        return [request for request in list(self._asked) if isinstance(request, kind)]

    def open_engine(self, url: SplitResult, options: dict[str, str], connect: Any) -> Engine:
        """The engine that a URL describes, with this line before it."""
        engine = open_engine(url, options, connect)
        return replace(
            engine,
            connect=lambda host: LineStore(self, engine.connect(host)),
            connect_async=lambda host: AsyncLineStore(self, engine.connect_async(host)),
        )

    def carried_out(self, requests: Sequence[Request]) -> None:
        """The engine has answered these."""
        self._asked += requests


class LineStore:
    """The way over the line for threads."""

    def __init__(self, line: Line, store: Store) -> None:
        self._line, self._store = line, store

    def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        for request in requests:
            self._line.before(request)
        if self._line.down:
            return [BROKEN] * len(requests)
        answers = self._store.ask(requests, until)
        self._line.carried_out(requests)
        for request in requests:
            self._line.after(request)
        return answers

    def close(self) -> None:
        self._line.closed += 1
        self._store.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def forget(self) -> None:
        self._store.forget()


class AsyncLineStore:
    """The way over the line for asyncio."""

    def __init__(self, line: Line, store: AsyncStore) -> None:
        self._line, self._store = line, store
        self.abandon, self.forget = store.abandon, store.forget

    async def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        for request in requests:
            await _performed(self._line.before(request))
        if self._line.down:
            return [BROKEN] * len(requests)
        answers = await self._store.ask(requests, until)
        self._line.carried_out(requests)
        for request in requests:
            await _performed(self._line.after(request))
        return answers

    async def close(self) -> None:
        self._line.closed += 1
        await self._store.close()


async def _performed(result: object) -> None:
    if isawaitable(result):
        await result


class Stop:
    """Keeps requests of one kind where they are until `go_on` is set."""

    def __init__(self, kind: type[Request]) -> None:
        self._kind = kind
        self.reached, self.go_on = threading.Event(), threading.Event()

    def __call__(self, request: Request) -> None:
        if isinstance(request, self._kind):
            self.reached.set()
            assert self.go_on.wait(60)


class AsyncStop:
    """The same for asyncio."""

    def __init__(self, kind: type[Request]) -> None:
        self._kind = kind
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self, request: Request) -> None:
        if isinstance(request, self._kind):
            self.reached.set()
            await self.go_on.wait()


class Raise:
    """Raises an error at the first request of one kind."""

    def __init__(self, kind: type[Request], error: BaseException) -> None:
        self._kind, self._error = kind, error
        self.raised = False

    def __call__(self, request: Request) -> None:
        if isinstance(request, self._kind) and not self.raised:
            self.raised = True
            raise self._error
