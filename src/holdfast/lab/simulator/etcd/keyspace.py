"""The data of a virtual etcd: keys with revisions, and leases that take their keys with them."""

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import grpc

from holdfast.engines.etcd.connection import LEASE_EXISTS, NO_SUCH_LEASE
from holdfast.engines.etcd.protocol import CREATION, DESCENDING, EQUAL, GREATER, LESS, messages

COMPARE = {EQUAL: operator.eq, GREATER: operator.gt, LESS: operator.lt}

SHORTEST = 2
"""Seconds: the least ttl that a server grants."""


class Refused(grpc.RpcError):
    """A call that a server refuses, as gRPC reports it."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self._code, self._text = code, text

    def code(self) -> grpc.StatusCode:
        """Which error it is."""
        return self._code

    def details(self) -> str:
        """Its text."""
        return self._text


@dataclass(slots=True)
class Lease:
    """An etcd lease. It ends some time after `ends_at`, unless it is kept alive before."""

    ttl: int
    ends_at: float


class Keyspace:
    """What the servers have agreed on. Each method is a call, and answers as etcd does."""

    def __init__(self, clock: Callable[[], float], deleted: Callable[[bytes, int], None]) -> None:
        self._clock, self._deleted = clock, deleted
        self.revision = 1
        self.keys: dict[bytes, Any] = {}
        self.leases: dict[int, Lease] = {}
        self.deletions: list[tuple[bytes, int]] = []
        """Which key was deleted, and at which revision."""

    def perform(self, method: str, request: bytes) -> bytes:
        """Carry out a call, as `Txn`, and give the reply."""
        message = messages[f"{method}Request"].FromString(request)
        fields = getattr(self, method)(message)
        reply = messages[f"{method}Response"](header={"revision": self.revision}, **fields)
        encoded: bytes = reply.SerializeToString()
        return encoded

    def Txn(self, request: Any) -> dict[str, Any]:  # noqa: N802 - as etcd calls it
        """Compare, then do the one thing or the other."""
        succeeded = all(map(self._holds, request.compare))
        operations = request.success if succeeded else request.failure
        for each in operations:
            if each.request_put.lease and each.request_put.lease not in self.leases:
                raise _no_lease()
        revision = self.revision + 1
        responses = [self._operate(each, revision) for each in operations]
        return {"succeeded": succeeded, "responses": responses}

    def Range(self, request: Any) -> dict[str, Any]:  # noqa: N802
        """Read keys."""
        found = self._between(request.key, request.range_end)
        count = len(found)
        if request.max_create_revision:
            found = [e for e in found if e.create_revision <= request.max_create_revision]
        if request.sort_target:
            found.sort(
                key=lambda each: each.create_revision, reverse=request.sort_order == DESCENDING
            )
        kept = found[: request.limit] if request.limit else found
        return {"kvs": kept, "count": count, "more": len(kept) < len(found)}

    def LeaseGrant(self, request: Any) -> dict[str, Any]:  # noqa: N802
        """Create a lease."""
        if request.ID in self.leases:
            raise Refused(LEASE_EXISTS, "etcdserver: lease already exists")
        ttl = max(request.TTL, SHORTEST)
        self.leases[request.ID] = Lease(ttl, self._clock() + ttl)
        return {"ID": request.ID, "TTL": ttl}

    def LeaseKeepAlive(self, request: Any) -> dict[str, Any]:  # noqa: N802
        """Begin its ttl anew; what is over is ended before the reply."""
        lease = self.leases.get(request.ID)
        if lease is not None and lease.ends_at <= self._clock():
            self.revoke(request.ID)
            lease = None
        if lease is None:
            return {"ID": request.ID, "TTL": 0}
        lease.ends_at = self._clock() + lease.ttl
        return {"ID": request.ID, "TTL": lease.ttl}

    def LeaseTimeToLive(self, request: Any) -> dict[str, Any]:  # noqa: N802
        """How long it has, and its keys."""
        lease = self.leases.get(request.ID)
        if lease is None:
            return {"ID": request.ID, "TTL": -1}
        keys = self._attached(request.ID) if request.keys else []
        left = int(lease.ends_at - self._clock())
        return {"ID": request.ID, "TTL": left, "grantedTTL": lease.ttl, "keys": keys}

    def LeaseRevoke(self, request: Any) -> dict[str, Any]:  # noqa: N802
        """End a lease."""
        if request.ID not in self.leases:
            raise _no_lease()
        self.revoke(request.ID)
        return {}

    def revoke(self, lease: int) -> None:
        """End a lease, and delete its keys."""
        self._delete(self._attached(lease), self.revision + 1)
        del self.leases[lease]

    def expire(self) -> None:
        """End the leases that were not kept alive."""
        now = self._clock()
        for lease in [each for each, it in self.leases.items() if it.ends_at <= now]:
            self.revoke(lease)

    def renew_all(self) -> None:
        """A new leader gives every lease its whole ttl."""
        for lease in self.leases.values():
            lease.ends_at = self._clock() + lease.ttl

    def _attached(self, lease: int) -> list[bytes]:
        return [key for key, each in self.keys.items() if each.lease == lease]

    def _between(self, key: bytes, end: bytes) -> list[Any]:
        if not end:
            return [self.keys[key]] if key in self.keys else []
        return [self.keys[each] for each in sorted(self.keys) if key <= each < end]

    def _holds(self, compare: Any) -> bool:
        created = compare.target == CREATION
        wanted = compare.create_revision if created else compare.mod_revision
        found = self._between(compare.key, compare.range_end) or [messages["KeyValue"]()]
        known = [each.create_revision if created else each.mod_revision for each in found]
        return all(COMPARE[compare.result](each, wanted) for each in known)

    def _operate(self, operation: Any, revision: int) -> dict[str, Any]:
        if operation.HasField("request_range"):
            return {"response_range": self.Range(operation.request_range)}
        if operation.HasField("request_put"):
            self._put(operation.request_put, revision)
            return {"response_put": {}}
        key = operation.request_delete_range.key
        there = [key] if key in self.keys else []
        self._delete(there, revision)
        return {"response_delete_range": {"deleted": len(there)}}

    def _put(self, put: Any, revision: int) -> None:
        before = self.keys.get(put.key)
        created = revision if before is None else before.create_revision
        self.keys[put.key] = messages["KeyValue"](
            key=put.key,
            value=put.value,
            lease=put.lease,
            create_revision=created,
            mod_revision=revision,
        )
        self.revision = revision

    def _delete(self, keys: Iterable[bytes], revision: int) -> None:
        for key in keys:
            self.revision = revision
            del self.keys[key]
            self.deletions.append((key, revision))
            self._deleted(key, revision)


def _no_lease() -> Refused:
    return Refused(NO_SUCH_LEASE, "etcdserver: requested lease not found")
