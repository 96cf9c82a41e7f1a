"""pytest: a client for each test, a clock that the test moves, and set-up that runs once, however
many workers xdist has.

In conftest.py, `pytest_plugins = ["holdfast.contrib.pytest_plugin"]`. Then

>>> def test_two_cannot_pay_at_once(holdfast_client):
...     with holdfast_client.lock("order:42"):
...         assert holdfast_client.lock("order:42").acquire(blocking=False) is None

>>> def test_a_pause_costs_the_lease(holdfast_time, holdfast_client):
...     lease = holdfast_client.lock("order:42", ttl=30).acquire()
...     holdfast_time.advance(3600)  # the lease is renewed meanwhile
...     assert lease.held
...     holdfast_time.pause(31)  # as if the process had been stopped for that long
...     assert lease.lost

>>> import pytest
>>> @pytest.fixture(scope="session")
... def database_url(holdfast_once):
...     return holdfast_once("database", lambda: "postgresql://localhost/made-once")
"""

import json
import os
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any
from urllib.parse import quote

import pytest

from holdfast.client import AsyncClient, Client
from holdfast.virtual_time import VirtualTime

__all__ = [
    "holdfast_async_client",
    "holdfast_client",
    "holdfast_once",
    "holdfast_time",
    "holdfast_url",
]

_numbers = count()


@pytest.fixture
def holdfast_time() -> Iterator[VirtualTime]:
    """The clock of all clients that are made in this test from here on."""
    with VirtualTime() as time:
        yield time


@pytest.fixture
def holdfast_url(holdfast_time: VirtualTime) -> str:
    """The URL of an empty store within this process, for this test alone, on `holdfast_time`."""
    return f"memory://pytest-{next(_numbers)}"


@pytest.fixture
def holdfast_client(holdfast_url: str) -> Iterator[Client]:
    """A client of `holdfast_url`."""
    with Client(holdfast_url) as client:
        yield client


@pytest.fixture
def holdfast_async_client(holdfast_url: str) -> AsyncClient:
    """A client of `holdfast_url` for asyncio; it is the test's to close, in its own loop."""
    return AsyncClient(holdfast_url)


@pytest.fixture(scope="session")
def holdfast_once(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str, Callable[[], Any]], Any]]:
    """`holdfast_once(name, make)`: call `make` in one worker of this test run, and give what it
    returned, which must be JSON, to all of them. Others wait meanwhile. If it raises, the next
    worker tries."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # the workers' own folders are in one
    with Client(f"sqlite://{quote(str(folder))}/holdfast.db") as client:

        def once(name: str, make: Callable[[], Any]) -> Any:
            cell = client.cell(name)
            with client.lock(name):
                made = cell.get()
                if made.value is None:
                    value = json.dumps(make())
                    cell.set(value, expect=0)
                else:
                    value = str(made.value)
            return json.loads(value)

        yield once
