"""The public interface, pinned: a change here is a change for users, and must be meant."""

import inspect
from typing import Any, assert_type

import pytest

import holdfast
import holdfast.fence
import holdfast.schema
from holdfast import (
    AsyncCell,
    AsyncClient,
    AsyncLease,
    AsyncLock,
    Cell,
    Client,
    Lease,
    LeaseInfo,
    Lock,
    Versioned,
    fence,
)

SIGNATURES = {
    "Client": "(url: str | object | None = None, *, prefix: str | None = None, "
    "ttl: float | None = None, retry: float | None = None, "
    "**engine_options: str | float | bool | os.PathLike[str]) -> None",
    "Client.from_sqlalchemy": "(engine: object, **options: Any) -> Self",
    "Client.lock": "(self, name: str, *, ttl: float | None = None, timeout: float | None = None, "
    "renew: bool = True, reentrant: bool = False, max_hold: float | None = None, "
    "retry: float | None = None) -> holdfast.lock.Lock",
    "Client.cell": "(self, name: str) -> holdfast.cell.Cell",
    "Cell.get": "(self) -> holdfast.core.records.Versioned",
    "Cell.set": "(self, value: bytes | str, *, expect: int) -> bool",
    "Cell.update": "(self, fn: collections.abc.Callable[[typing.Any], bytes | str], "
    "timeout: float | None = 10.0) -> bytes | str",
    "Client.inspect": "(self, name: str) -> holdfast.core.records.LeaseInfo | None",
    "Client.leases": "(self, prefix: str = '') -> "
    "collections.abc.Iterator[holdfast.core.records.LeaseInfo]",
    "Client.break_lock": "(self, name: str) -> bool",
    "Client.close": "(self) -> None",
    "Lock.release": "(self) -> None",
    "Lock.locked": "(self) -> bool",
    "Lease.extend": "(self, ttl: float | None = None) -> None",
    "Lease.release": "(self) -> None",
    "Lease.remaining": "(self) -> float",
    "Lease.ensure_held": "(self) -> None",
    "Lease.guard": "(self, connection: object = None) -> holdfast.core.ports.Comparison | None",
    "fence.check": "(connection: object, name: str, fence: int) -> None",
    "fence.acheck": "(connection: object, name: str, fence: int) -> None",
    "schema.ddl": "(url: str | None = None) -> str",
}

MEMBERS = {
    "Client": "break_lock cell close closed from_sqlalchemy guarantees inspect leases lock url",
    "AsyncClient": "aclose break_lock cell closed from_sqlalchemy guarantees inspect leases lock "
    "url",
    "Cell": "get name set update",
    "AsyncCell": "get name set update",
    "Versioned": "count index value version",
    "Lock": "acquire locked name release ttl",
    "AsyncLock": "acquire locked name release ttl",
    "Lease": "ensure_held extend fence guard held holder lost name on_lost release remaining ttl",
    "AsyncLease": "ensure_held extend fence guard held holder lost name on_lost release remaining "
    "ttl",
    "LeaseInfo": "fence holder label name remaining waiters",
    "Label": "host of pid program",
    "Guarantees": "broken_by engine exclusion fairness fence fence_ends max_ttl min_ttl suits "
    "ttl_step wake_up",
}


def look_up(path: str) -> Any:
    found: Any = holdfast
    for part in path.split("."):
        found = getattr(found, part)
    return found


def test_signatures() -> None:
    seen = {path: str(inspect.signature(look_up(path))) for path in SIGNATURES}
    assert seen == SIGNATURES


def test_members() -> None:
    seen = {
        name: " ".join(sorted(m for m in dir(look_up(name)) if not m.startswith("_")))
        for name in MEMBERS
    }
    assert seen == MEMBERS


def test_both_colours_take_the_same_arguments() -> None:
    pairs: list[tuple[Any, Any]] = [
        (Client, AsyncClient),
        (Lock.acquire, AsyncLock.acquire),
        (Lease.guard, AsyncLease.guard),
        (fence.check, fence.acheck),
        (Cell.set, AsyncCell.set),
        (Cell.update, AsyncCell.update),
    ]
    for pair in pairs:
        sync, other = (list(inspect.signature(each).parameters) for each in pair)
        assert sync == other
    of_sync, of_async = (set(inspect.signature(c.lock).parameters) for c in (Client, AsyncClient))
    assert of_async - of_sync == {"cancel_on_loss"}


def test_errors_are_what_the_documentation_says() -> None:
    assert issubclass(holdfast.AcquireTimeout, (holdfast.LockError, TimeoutError))
    assert issubclass(holdfast.AcquireTimeout, TimeoutError)
    assert issubclass(holdfast.NotHeld, RuntimeError)
    assert issubclass(holdfast.LockLost, holdfast.NotHeld)
    assert issubclass(holdfast.EngineUnavailable, ConnectionError)
    assert issubclass(holdfast.UpdateTimeout, TimeoutError)
    for name in holdfast._HOMES["errors"]:
        assert issubclass(getattr(holdfast, name), holdfast.LockError)


@pytest.mark.parametrize(
    "url",
    ["sqlite://ann:secret@host/p", "memory://ann:secret@x/path", "x://ann:secret@h?ttl=1&ttl=2",
     "x://ann:secret@h#f", "nope://ann:secret@h"],
)  # fmt: skip
def test_no_error_tells_a_password(url: str) -> None:
    with pytest.raises(ValueError, match="url: ") as caught:
        Client(url)
    assert "secret" not in str(caught.value)


def types_as_users_see_them(client: Client, async_client: AsyncClient) -> None:
    """Checked by mypy, not run."""
    with client.lock("job") as lease:
        assert_type(lease, Lease)
        assert_type(lease.fence, int)
    assert_type(client.lock("job").acquire(), Lease | None)
    assert_type(client.inspect("job"), LeaseInfo | None)
    assert_type(client.cell("stock"), Cell)
    assert_type(client.cell("stock").get(), Versioned)
    assert_type(client.cell("stock").update(lambda value: value or "1"), bytes | str)

    @client.lock("job")
    def work(x: int) -> str:
        return str(x)

    assert_type(work(1), str)

    async def main() -> None:
        async with async_client.lock("job") as lease:
            assert_type(lease, AsyncLease)
        assert_type(await async_client.lock("job").acquire(), AsyncLease | None)
        assert_type(async_client.cell("stock"), AsyncCell)
        assert_type(await async_client.cell("stock").get(), Versioned)

        @async_client.lock("job")
        async def work(x: int) -> str:
            return str(x)

        assert_type(await work(1), str)
