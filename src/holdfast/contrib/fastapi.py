"""FastAPI and Starlette: one request at a time for each order, and work for one replica alone.

>>> import contextlib, typing, fastapi, holdfast
>>> from holdfast.contrib.fastapi import locked, on_one_replica
>>> client = holdfast.AsyncClient("memory://fastapi-example")

>>> async def clean_up(lease: holdfast.AsyncLease) -> None:
...     print("this replica cleans up")

>>> @contextlib.asynccontextmanager
... async def lifespan(app):
...     async with client, on_one_replica(client, "clean-up", clean_up):
...         yield

>>> app = fastapi.FastAPI(lifespan=lifespan)

>>> def order_lock(order_id: int) -> str:
...     return f"order:{order_id}"

>>> @app.post("/orders/{order_id}/pay")
... async def pay(
...     order_id: int, lease: typing.Annotated[holdfast.AsyncLease, locked(client, order_lock)]
... ) -> dict[str, int]:
...     return {"order": order_id, "fence": lease.fence}

>>> from fastapi.testclient import TestClient
>>> with TestClient(app) as browser:
...     browser.post("/orders/042/pay").json()
this replica cleans up
{'order': 42, 'fence': 1}
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from holdfast.client import AsyncClient
from holdfast.contrib.leader import lead, on_one_replica
from holdfast.errors import EngineUnavailable
from holdfast.lease import AsyncLease

__all__ = ["holding", "lead", "locked", "on_one_replica"]


@asynccontextmanager
async def holding(
    client: AsyncClient,
    name: str,
    *,
    timeout: float = 0.0,
    ttl: float | None = None,
    status: int = 409,
) -> AsyncIterator[AsyncLease]:
    """Hold a lock in an endpoint: `async with holding(client, f"order:{number}") as lease:`.

    If another request has it for longer than `timeout` seconds (default: do not wait), the answer
    is `status`: 409 Conflict, or 423 Locked if you prefer. If the engine is unreachable, it is 503.
    If the lease is lost, the endpoint is cancelled, and `LockLost` raised.
    """
    lock = client.lock(name, ttl=ttl, cancel_on_loss=True)
    try:
        lease = await lock.acquire(timeout=timeout)
    except EngineUnavailable as error:
        raise HTTPException(503, "the lock server is unreachable") from error
    if lease is None:
        raise HTTPException(status, f"{name} is locked by another request")
    async with lease:
        yield lease


def locked(
    client: AsyncClient,
    name: str | Callable[..., Any],
    *,
    timeout: float = 0.0,
    ttl: float | None = None,
    status: int = 409,
) -> Any:
    """A dependency of FastAPI that holds a lock while the endpoint runs, and gives it the lease.

    `name` is a function that returns the name of the lock. It is a dependency itself: FastAPI
    calls it with the arguments of the request that it asks for, converted and checked. Or it is
    text, such as `"order:{order_id}"`, filled with the parameters of the path as the router has
    them: there, `042` and `42` differ, unless the path has `{order_id:int}`. The rest is as for
    `holding`. The lock is released before the response is sent.
    """
    from fastapi import Depends

    def from_path(connection: HTTPConnection) -> str:
        return str(name).format_map(connection.path_params)

    async def hold(
        name: str = Depends(name if callable(name) else from_path),
    ) -> AsyncIterator[AsyncLease]:
        async with holding(client, name, timeout=timeout, ttl=ttl, status=status) as lease:
            yield lease

    return Depends(hold, scope="function")
