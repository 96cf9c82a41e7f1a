"""The public interface, pinned: a change here is a change for users, and must be meant."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import holdfast
from holdfast import (
    AsyncCell,
    AsyncClient,
    AsyncLease,
    AsyncLock,
    Cell,
    Client,
    Lease,
    Lock,
    fence,
)

SIGNATURES = {
    "Client": "(url: str | holdfast.engines.RedisClient | holdfast.engines.RedisClusterClient "
    "| collections.abc.Sequence[holdfast.engines.RedisClient] | holdfast.engines.SqlAlchemyEngine "
    "| holdfast.engines.PsycopgPool | None = None, *, prefix: str | None = None, "
    "ttl: float | None = None, retry: float | None = None, label: str | None = None, "
    "connect: collections.abc.Callable[[], Any] | None = None, "
    "hooks: collections.abc.Iterable[collections.abc.Callable[[holdfast.events.Event], object]] "
    "= (), "
    "**engine_options: str | float | bool | os.PathLike[str]) -> None",
    "Client.from_sqlalchemy": "(engine: holdfast.engines.SqlAlchemyEngine, **options: Any) -> Self",
    "Client.lock": "(self, name: str, *, ttl: float | None = None, timeout: float | None = None, "
    "renew: bool = True, reentrant: bool = False, max_hold: float | None = None, "
    "min_hold: float = 0.0, retry: float | None = None, label: str | None = None) "
    "-> holdfast.lock.Lock",
    "Client.lock_all": "(self, names: collections.abc.Iterable[str], *, ttl: float | None = None, "
    "timeout: float | None = None, renew: bool = True, max_hold: float | None = None, "
    "retry: float | None = None, label: str | None = None) -> holdfast.lock_all.LockAll",
    "Client.once": "(self, name: str, *, every: float, ttl: float | None = None, "
    "timeout: float = 0.0, max_hold: float | None = None, retry: float | None = None, "
    "label: str | None = None) -> holdfast.skip.Once",
    "LeaseAll.extend": "(self, ttl: float | None = None) -> None",
    "LeaseAll.release": "(self) -> None",
    "Client.election": "(self, name: str, *, value: str = '', ttl: float | None = None, "
    "max_hold: float | None = None, retry: float | None = None, label: str | None = None) "
    "-> holdfast.election.Election",
    "Election.campaign": "(self, timeout: float | None = None) -> holdfast.lease.Lease",
    "Election.leader": "(self) -> holdfast.core.records.Leader | None",
    "Election.observe": "(self) -> collections.abc.Iterator[holdfast.core.records.Leader | None]",
    "Election.run": "(self, work: collections.abc.Callable[[holdfast.lease.Lease], ~R]) -> ~R",
    "Client.latch": "(self, name: str, count: int, *, retry: float | None = None) "
    "-> holdfast.latch.Latch",
    "Latch.count_down": "(self, participant: str | None = None) -> int",
    "Latch.wait": "(self, timeout: float | None = None) -> bool",
    "Latch.arrived": "(self) -> list[str]",
    "Client.cell": "(self, name: str) -> holdfast.cell.Cell",
    "Cell.get": "(self) -> holdfast.core.records.Versioned",
    "Cell.set": "(self, value: bytes | str, *, expect: int) -> bool",
    "Cell.update": "(self, fn: collections.abc.Callable[[Any], ~V], "
    "timeout: float | None = 10.0) -> ~V",
    "Client.inspect": "(self, name: str) -> holdfast.core.records.LeaseInfo | None",
    "Client.leases": "(self, prefix: str = '') -> "
    "collections.abc.Iterator[holdfast.core.records.LeaseInfo]",
    "Client.rwlock": "(self, name: str, **options: Unpack[holdfast.lock.LockOptions]) "
    "-> holdfast.lock.ReadWriteLock[holdfast.lock.Lock]",
    "Client.semaphore": "(self, name: str, slots: int, "
    "**options: Unpack[holdfast.lock.LockOptions]) -> holdfast.lock.Lock",
    "Client.break_lock": "(self, name: str, holder: str = '') -> bool",
    "Client.close": "(self) -> None",
    "Lock.release": "(self) -> None",
    "Lock.locked": "(self) -> bool",
    "Lease.extend": "(self, ttl: float | None = None) -> None",
    "Lease.release": "(self) -> None",
    "Lease.remaining": "(self) -> float",
    "Lease.ensure_held": "(self) -> None",
    "Lease.guard_sql": "(self, paramstyle: Literal['qmark', 'numeric', 'named', 'format', "
    "'pyformat', 'numeric_dollar']) -> tuple[str, tuple[object, ...] | dict[str, object]]",
    "Lease.guard": "(self, connection: object = None) -> holdfast.core.ports.Comparison | None",
    "fence.check": "(connection: object, name: str, fence: int) -> None",
    "fence.acheck": "(connection: object, name: str, fence: int) -> None",
    "schema.ddl": "(url: str | None = None) -> str",
}

MEMBERS = {
    "Client": "break_lock cell close closed diagnose election from_sqlalchemy guarantees inspect "
    "latch leases lock lock_all nodes once rwlock semaphore url",
    "AsyncClient": "aclose break_lock cell closed diagnose election from_sqlalchemy guarantees "
    "inspect latch leases lock lock_all nodes once rwlock semaphore url",
    "Cell": "get name set update",
    "AsyncCell": "get name set update",
    "Versioned": "count index value version",
    "Lock": "acquire locked name or_skip release ttl with_lease",
    "AsyncLock": "acquire locked name or_skip release ttl with_lease",
    "LockAll": "acquire names ttl",
    "AsyncLockAll": "acquire names ttl",
    "LeaseAll": "ensure_held extend fences held lost names on_lost release remaining ttl",
    "AsyncLeaseAll": "ensure_held extend fences held lost names on_lost release remaining ttl",
    "Election": "campaign leader name observe run value",
    "AsyncElection": "campaign leader name observe run value",
    "Latch": "arrived count count_down name wait",
    "AsyncLatch": "arrived count count_down name wait",
    "Leader": "holder label term value",
    "Once": "with_lease",
    "AsyncOnce": "with_lease",
    "OrSkip": "with_lease",
    "AsyncOrSkip": "with_lease",
    "Lease": "ensure_held extend fence guard guard_sql held holder lost name on_lost release "
    "remaining ttl",
    "AsyncLease": "ensure_held extend fence guard guard_sql held holder lost name on_lost release "
    "remaining ttl",
    "LeaseInfo": "fence holder label members name remaining shares waiters",
    "Member": "holder label remaining",
    "NodeInfo": "answers error margin name offset quarantine round_trip uncertainty",
    "ReadWriteLock": "read write",
    "Label": "asked_at host of pid program text",
    "Guarantees": "broken_by engine exclusion fairness fence fence_ends max_ttl min_ttl suits "
    "ttl_step wake_up",
}


def look_up(path: str) -> Any:
    found: Any = holdfast
    for part in path.split("."):
        found = getattr(found, part)
    return found


def signature(path: str) -> str:
    """As Python 3.14 writes it; the others differ in two places."""
    text = str(inspect.signature(look_up(path))).replace("typing.Any", "Any")
    return re.sub(r"\*<class '([\w.]+)'>", r"Unpack[\1]", text)


def test_signatures() -> None:
    assert {path: signature(path) for path in SIGNATURES} == SIGNATURES


def test_members() -> None:
    seen = {
        name: " ".join(sorted(m for m in dir(look_up(name)) if not m.startswith("_")))
        for name in MEMBERS
    }
    assert seen == MEMBERS


def test_both_modes_take_the_same_arguments() -> None:
    pairs: list[tuple[Any, Any]] = [
        (Client, AsyncClient),
        (Lock.acquire, AsyncLock.acquire),
        (Lease.guard, AsyncLease.guard),
        (fence.check, fence.acheck),
        (holdfast.LockAll.acquire, holdfast.AsyncLockAll.acquire),
        (Client.election, AsyncClient.election),
        (holdfast.Election.campaign, holdfast.AsyncElection.campaign),
        (holdfast.Election.run, holdfast.AsyncElection.run),
        (Client.latch, AsyncClient.latch),
        (holdfast.Latch.count_down, holdfast.AsyncLatch.count_down),
        (holdfast.Latch.wait, holdfast.AsyncLatch.wait),
        (Cell.set, AsyncCell.set),
        (Cell.update, AsyncCell.update),
    ]
    for pair in pairs:
        sync, other = (list(inspect.signature(each).parameters) for each in pair)
        assert sync == other
    for name in ("lock", "lock_all", "once"):
        of_sync, of_async = (
            set(inspect.signature(getattr(c, name)).parameters) for c in (Client, AsyncClient)
        )
        assert of_async - of_sync == {"cancel_on_loss"}


def documented() -> Iterator[tuple[str, Any]]:
    """The public functions, methods and decorators, and the classes that users make."""
    for name in holdfast.__all__:
        found = getattr(holdfast, name)
        if inspect.ismodule(found):
            yield from ((f"{name}.{each}", getattr(found, each)) for each in found.__all__)
        elif name in MEMBERS:
            for member in (*MEMBERS[name].split(), "__call__"):
                method = getattr(found, member, None)
                if inspect.isroutine(method) and not hasattr(tuple, member):
                    yield f"{name}.{member}", method
    yield "Client", Client


def test_each_parameter_is_explained() -> None:
    """In backticks; or the docstring says whose it is like."""
    for path, function in documented():
        text = inspect.getdoc(function) or ""
        names = [each for each in inspect.signature(function).parameters if each != "self"]
        if re.search(r"\bas `\w+(\.\w+)?`", text, re.IGNORECASE):
            names = [each for each in names if each == "cancel_on_loss"]
        assert [each for each in names if f"`{each}`" not in text] == [], path


def test_errors_are_what_the_documentation_says() -> None:
    assert issubclass(holdfast.AcquireTimeout, (holdfast.LockError, TimeoutError))
    assert issubclass(holdfast.AcquireTimeout, TimeoutError)
    assert issubclass(holdfast.NotHeld, RuntimeError)
    assert issubclass(holdfast.LockLost, holdfast.NotHeld)
    assert issubclass(holdfast.EngineUnavailable, ConnectionError)
    assert issubclass(holdfast.UpdateTimeout, TimeoutError)
    for found in map(look_up, holdfast.__all__):
        if inspect.isclass(found) and issubclass(found, Exception):
            assert issubclass(found, holdfast.LockError)


@pytest.mark.parametrize(
    "url",
    ["sqlite://ann:secret@host/p", "memory://ann:secret@x/path", "x://ann:secret@h?ttl=1&ttl=2",
     "x://ann:secret@h#f", "nope://ann:secret@h"],
)  # fmt: skip
def test_no_error_tells_a_password(url: str) -> None:
    with pytest.raises(ValueError, match="url: ") as caught:
        Client(url)
    assert "secret" not in str(caught.value)
