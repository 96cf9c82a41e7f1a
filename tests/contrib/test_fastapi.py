"""Locks in FastAPI and Starlette, and the work of one replica."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any
from uuid import uuid4

import httpx2
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from holdfast import AsyncClient, AsyncLease, LockLost
from holdfast.contrib import leader
from holdfast.contrib.fastapi import holding, lead, locked, on_one_replica
from holdfast.lab.servers.redis import RedisServer

AT_ONCE = 20.0
"""Against hanging."""

App = FastAPI | Starlette


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def url() -> str:
    return f"memory://{uuid4()}"


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "PAUSE", 0.01)


def browser(app: App) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://test")


def play(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scene(), 3 * AT_ONCE))


async def one_waits(client: AsyncClient, name: str) -> None:
    while not (info := await client.inspect(name)) or not info.waiters:  # noqa: ASYNC110 - the queue is in the server
        await asyncio.sleep(0.01)


def order_lock(order_id: int) -> str:
    return f"order:{order_id}"


def shop(client: AsyncClient, name: Any = order_lock, **options: Any) -> FastAPI:
    app = FastAPI()

    @app.post("/orders/{order_id}")
    async def pay(
        order_id: int, lease: Annotated[AsyncLease, locked(client, name, **options)]
    ) -> int:
        assert lease.held
        return lease.fence

    return app


def test_an_endpoint_runs_while_it_holds_the_lock_of_its_argument(url: str) -> None:
    async def scene() -> None:
        async with AsyncClient(url) as client, browser(shop(client)) as user:
            assert (await user.post("/orders/42")).json() == 1
            async with client.lock("order:42"):
                answers = [await user.post(f"/orders/{text}") for text in ("42", "042", "43")]
                assert [answer.status_code for answer in answers] == [409, 409, 200]
                assert answers[0].json() == {"detail": "order:42 is locked by another request"}

    play(scene)


def test_the_lock_is_released_before_the_response_is_sent(url: str) -> None:
    async def scene() -> None:
        async with AsyncClient(url) as client:
            held = []

            def watched(app: FastAPI) -> Any:
                async def call(scope: Any, receive: Any, send: Any) -> None:
                    async def watch(message: Any) -> None:
                        held.append(await client.inspect("order:42"))
                        await send(message)

                    await app(scope, receive, watch)

                return call

            async with browser(watched(shop(client))) as user:
                assert (await user.post("/orders/42")).json() == 1
            assert held == [None, None]  # the headers, and the body

    play(scene)


def test_text_is_filled_with_the_parameters_of_the_path(url: str) -> None:
    async def scene() -> None:
        async with AsyncClient(url) as client:
            app = shop(client, "order:{order_id}", status=423)
            async with browser(app) as user, client.lock("order:42"):
                assert (await user.post("/orders/42")).status_code == 423
                assert (await user.post("/orders/43")).status_code == 200

    play(scene)


def test_an_argument_that_is_no_number_is_refused_before_any_lock(url: str) -> None:
    async def scene() -> None:
        async with AsyncClient(url) as client, browser(shop(client)) as user:
            assert (await user.post("/orders/all")).status_code == 422

    play(scene)


def test_a_request_waits_for_its_timeout(redis: RedisServer) -> None:
    async def scene() -> None:
        async with AsyncClient(redis.url) as client:
            app = shop(client, timeout=AT_ONCE)
            async with browser(app) as user:
                lease = await client.lock("order:42").acquire()
                assert lease is not None
                answer = asyncio.create_task(user.post("/orders/42"))
                await one_waits(client, "order:42")
                await lease.release()
                assert (await answer).json() > lease.fence

    play(scene)


def test_an_unreachable_engine_is_503() -> None:
    async def scene() -> None:
        async with AsyncClient("redis://127.0.0.1:1") as client, browser(shop(client)) as user:
            assert (await user.post("/orders/42")).status_code == 503

    play(scene)


def test_a_request_whose_lock_is_lost_is_cancelled_and_fails(url: str) -> None:
    async def scene() -> None:
        app = FastAPI()
        async with AsyncClient(url, ttl=0.3) as client:

            @app.post("/")
            async def pay(lease: Annotated[AsyncLease, locked(client, lambda: "job")]) -> None:
                await client.break_lock("job")
                await asyncio.sleep(AT_ONCE)

            async with browser(app) as user:
                with pytest.raises(LockLost):
                    await user.post("/")

    play(scene)


def test_an_endpoint_of_starlette(url: str) -> None:
    async def scene() -> None:
        async with AsyncClient(url) as client:

            async def pay(request: Request) -> PlainTextResponse:
                async with holding(client, f"order:{request.path_params['order_id']}") as lease:
                    return PlainTextResponse(str(lease.fence))

            app = Starlette(routes=[Route("/orders/{order_id:int}", pay)])
            async with browser(app) as user:
                assert (await user.get("/orders/042")).text == "1"
                async with client.lock("order:42"):
                    assert (await user.get("/orders/42")).status_code == 409

    play(scene)


class Job:
    """Endless work, as a replica has it."""

    def __init__(self, returns: bool = False) -> None:
        self._returns = returns
        """Whether it returns when it was cancelled, as if nothing had happened."""
        self.begun: asyncio.Queue[AsyncLease] = asyncio.Queue()
        self.held_at_end: asyncio.Queue[bool] = asyncio.Queue()

    async def __call__(self, lease: AsyncLease) -> None:
        self.begun.put_nowait(lease)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not self._returns:
                raise
        finally:
            self.held_at_end.put_nowait(lease.held)


def replica(url: str, job: Job) -> FastAPI:
    client = AsyncClient(url)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with client, on_one_replica(client, "job", job, ttl=6):
            yield

    return FastAPI(lifespan=lifespan)


def test_one_replica_works_and_the_next_one_when_it_ends(redis: RedisServer) -> None:
    async def scene() -> None:
        jobs = [Job(), Job()]
        first, second = (replica(redis.url, job) for job in jobs)
        async with second.router.lifespan_context(second):
            lease = await jobs[1].begun.get()
            async with first.router.lifespan_context(first):
                async with AsyncClient(redis.url) as operator:
                    await one_waits(operator, "job")
                    assert jobs[0].begun.empty()
                    await operator.break_lock("job")
                assert (await jobs[0].begun.get()).fence > lease.fence
                await jobs[1].held_at_end.get()
            assert await jobs[0].held_at_end.get()
            assert (await jobs[1].begun.get()).held  # it campaigns again after a loss

    play(scene)


@pytest.mark.parametrize("returns", [False, True])
def test_work_is_cancelled_before_its_lease_ends_and_begins_again(returns: bool) -> None:
    async def scene() -> None:
        job = Job(returns)
        with RedisServer() as server:
            async with AsyncClient(server.url) as client:
                campaign = asyncio.create_task(lead(client, "job", job, ttl=6))
                lease = await job.begun.get()
                server.freeze()
                assert await job.held_at_end.get()
                server.thaw()
                assert (await job.begun.get()).fence > lease.fence
                campaign.cancel()
                await asyncio.gather(campaign, return_exceptions=True)
                assert await job.held_at_end.get()
                assert await client.inspect("job") is None

    play(scene)


@pytest.mark.parametrize("failure", [OSError, asyncio.CancelledError])
def test_work_that_fails_is_tried_again_and_work_that_returns_is_done(
    url: str, failure: type[BaseException]
) -> None:
    fences = []

    async def work(lease: AsyncLease) -> None:
        fences.append(lease.fence)
        if len(fences) == 1:
            raise failure

    async def scene() -> None:
        async with AsyncClient(url) as client:
            await lead(client, "job", work)
            assert fences == [1, 2]

    play(scene)


def test_a_campaign_ends_with_its_client(url: str) -> None:
    async def scene() -> None:
        job = Job()
        client = AsyncClient(url)
        campaign = asyncio.create_task(lead(client, "job", job, ttl=3600))
        await job.begun.get()
        await client.aclose()
        await campaign

    play(scene)
