"""A virtual etcd: members that answer from the same data, and push deletions to their watchers."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import grpc

from holdfast.engines.etcd.commands import queue_of, shares_of
from holdfast.engines.etcd.protocol import DELETED, messages
from holdfast.engines.queue import holders
from holdfast.lab.simulator.driver import Timeline
from holdfast.lab.simulator.etcd.keyspace import Keyspace, Refused
from holdfast.lab.simulator.network import Connection
from holdfast.lab.simulator.server import BaseServer, Place, Receive

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
        self._watchers: list[Watcher] = []

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
        self._watchers.clear()
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
            self._watchers = [
                each
                for each in self._watchers
                if (each.connection, each.number) != (connection, number)
            ]
            return self._push(Watcher(connection, number, b"", reply), canceled=True)
        create = request.create_request
        watcher = Watcher(connection, create.watch_id, create.key, reply)
        self._watchers.append(watcher)
        self._push(watcher, created=True)
        for key, revision in self.data.deletions:
            if key == create.key and revision >= create.start_revision:
                self._push_deletion(watcher, revision)
        return None

    def _deleted(self, key: bytes, revision: int) -> None:
        for member in self.members:
            member.push_deletion(key, revision)

    def push_deletion(self, key: bytes, revision: int) -> None:
        """Report to the watchers of this member that a key was deleted."""
        for each in self._watchers:
            if each.key == key:
                self._push_deletion(each, revision)

    def _push_deletion(self, watcher: Watcher, revision: int) -> None:
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
