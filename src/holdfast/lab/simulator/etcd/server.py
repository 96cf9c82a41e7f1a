"""A virtual etcd: members that answer from the same data, and push deletions to their watchers. The
data are keys with revisions, and leases that take their keys with them."""

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import grpc

from holdfast.engines.etcd.commands import queue_of, shares_of
from holdfast.engines.etcd.connection import LEASE_EXISTS, NO_SUCH_LEASE
from holdfast.engines.etcd.protocol import (
    CREATION,
    DELETED,
    DESCENDING,
    EQUAL,
    GREATER,
    LESS,
    messages,
)
from holdfast.engines.queue import holders
from holdfast.lab.simulator.driver import Timeline
from holdfast.lab.simulator.network import Connection
from holdfast.lab.simulator.server import BaseServer, Place, Receive

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


PROPOSED = ("Txn", "LeaseGrant", "LeaseRevoke")
"""The calls that a server which is full, or busy, refuses."""

EXPIRY_EVERY = 0.5
"""At most this many seconds between two looks of a server for leases that are over."""


class Watcher(NamedTuple):
    """One watch of a stream."""

    connection: Connection
    number: int
    key: bytes
    reply: Receive


class EtcdServer(BaseServer):
    """Keeps its data over a restart, and gives every lease its whole ttl then, as etcd does."""

    ERRORS = (
        Refused(grpc.StatusCode.UNAVAILABLE, "etcdserver: leader changed"),
        Refused(grpc.StatusCode.UNAVAILABLE, "etcdserver: request timed out"),
        Refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "etcdserver: too many requests"),
        Refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded"),
    )

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.members: Sequence[EtcdServer] = (self,)
        self.data = Keyspace(self.clock, self._deleted)
        self.watchers: list[Watcher] = []

    @classmethod
    def several(cls, count: int, timeline: Timeline, **settings: Any) -> Sequence[Self]:
        """Members that share their data, and the clock of their leader."""
        members = super().several(count, timeline, **settings)
        for each in members:
            each.members, each.data, each.clock = members, members[0].data, members[0].clock
        members[0].expire_leases()
        return members

    @property
    def has_leader(self) -> bool:
        """Whether a majority of the members is there."""
        return sum(each.up and not each.frozen for each in self.members) > len(self.members) / 2

    def restart(self, *, loses_data: bool) -> None:
        """Come up again, without the watches."""
        super().restart(loses_data=loses_data)
        self.watchers.clear()
        self.data.renew_all()

    def answer(self, connection: Connection, data: Any, reply: Receive) -> None:
        """Carry out the requests of a call, or one of a stream of watches."""
        method, requests = data
        if method == "Watch":
            return self._watch(connection, messages["WatchRequest"].FromString(requests[0]), reply)
        replies = [self._perform(method, each) for each in requests]
        self.connections.pop(connection, None)
        return connection.to_client(lambda: reply(replies))

    def _perform(self, method: str, request: bytes) -> bytes | Refused:
        if not self.has_leader:
            return Refused(grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader")
        error: Refused | None = self.refusal()
        if error is not None and error.code() is grpc.StatusCode.UNAVAILABLE:
            if self.timeline.random.random() < 0.5:  # it may have been carried out
                self._try(method, request)
            return error
        return error if error is not None and method in PROPOSED else self._try(method, request)

    def _try(self, method: str, request: bytes) -> bytes | Refused:
        try:
            return self.data.perform(method, request)
        except Refused as error:
            return error

    def _watch(self, connection: Connection, request: Any, reply: Receive) -> None:
        if request.HasField("cancel_request"):
            number = request.cancel_request.watch_id
            self.watchers = [
                each
                for each in self.watchers
                if (each.connection, each.number) != (connection, number)
            ]
            return self._push(Watcher(connection, number, b"", reply), canceled=True)
        create = request.create_request
        watcher = Watcher(connection, create.watch_id, create.key, reply)
        self.watchers.append(watcher)
        self._push(watcher, created=True)
        for key, revision in self.data.deletions:
            if key == create.key and revision >= create.start_revision:
                self.push_deletion(watcher, revision)
        return None

    def _deleted(self, key: bytes, revision: int) -> None:
        for member in self.members:
            for each in member.watchers:
                if each.key == key:
                    member.push_deletion(each, revision)

    def push_deletion(self, watcher: Watcher, revision: int) -> None:
        """Report that its key was deleted."""
        kv = {"key": watcher.key, "mod_revision": revision}
        self._push(watcher, events=[{"type": DELETED, "kv": kv}])

    def _push(self, watcher: Watcher, **fields: Any) -> None:
        header = {"revision": self.data.revision}
        response = messages["WatchResponse"](header=header, watch_id=watcher.number, **fields)
        data = response.SerializeToString()
        connection = watcher.connection
        if self.frozen:
            self.later(connection, lambda: connection.to_client(lambda: watcher.reply([data])))
        else:
            connection.to_client(lambda: watcher.reply([data]))

    def expire_leases(self) -> None:
        """End leases now and then: some are over for a while before their keys are gone."""
        if self.has_leader:
            self.data.expire()
        pause = self.timeline.random.uniform(0.0, EXPIRY_EVERY)
        self.timeline.at(self.timeline.now + pause, self.expire_leases)

    def places(self, key: str) -> list[Place]:
        """Those that have a lock, and those that wait for it. A request that was carried out late
        may have left a holder one more place, until its etcd lease ends."""
        first, end = queue_of(key)
        found = [each for each in self.data.keys.values() if first <= each.key < end]
        queue = sorted(found, key=lambda each: each.create_revision)
        granted = len(holders(queue, lambda each: shares_of(each.key)))
        ends_at = [self.data.leases[each.lease].ends_at for each in queue]
        return [
            Place(
                each.value.decode(), number < granted, each.create_revision, self.clock.true(ends)
            )
            for number, (each, ends) in enumerate(zip(queue, ends_at, strict=True))
        ]

    def leftovers(self) -> list[str]:
        """What must not be there when every lock was released."""
        keys = [each.value.decode() for each in self.data.keys.values()]
        return [*keys, *(f"etcd lease {lease:x}" for lease in self.data.leases)]
