"""A server with the page, and a visitor that has signed in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

import holdfast
from holdfast.ui import app

from .server import TOKEN, Visitor, serving

Hold: TypeAlias = Callable[[holdfast.Lock], holdfast.Lease]


@pytest.fixture
def kept() -> list[holdfast.Lease]:
    return []


@pytest.fixture
def client(kept: list[holdfast.Lease]) -> Iterator[holdfast.Client]:
    with holdfast.Client("memory://") as client:
        yield client


@pytest.fixture
def hold(kept: list[holdfast.Lease]) -> Hold:
    """Acquires a lock, which is held until the client is closed."""

    def acquire(lock: holdfast.Lock) -> holdfast.Lease:
        lease = lock.acquire()
        assert lease
        kept.append(lease)
        return lease

    return acquire


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


@pytest.fixture
def port(client: holdfast.Client, audit: Path) -> Iterator[int]:
    page = app(
        client,
        token=TOKEN,
        once=True,
        hosts=["127.0.0.1", "localhost"],
        allow_break=True,
        audit_log=audit,
    )
    with serving(page) as port:
        yield port


@pytest.fixture
def visitor(port: int) -> Visitor:
    visitor = Visitor(port)
    visitor.sign_in()
    return visitor
