"""What is to be said of an etcd cluster, for a doctor: see `holdfast doctor`."""

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import grpc

from holdfast.core.ports import node_timeout
from holdfast.core.records import Finding, NodeInfo
from holdfast.engines import examining
from holdfast.engines.etcd.connection import (
    Cluster,
    NoAnswer,
    accepted,
    read_error,
)
from holdfast.engines.etcd.protocol import AUTHENTICATE, Method
from holdfast.engines.queue import Rejected

OLDEST, NEWEST = "3.4.0", "3.6"
"""The versions that it was tried with lie between these."""

SAFE: dict[tuple[int, ...], int] = {(3, 4): 31, (3, 5): 13}
"""From which patch on a leader that was stopped, and goes on, revokes no live leases."""

STATUS = Method("Maintenance/Status")
ALARM = Method("Maintenance/Alarm")
MEMBER_LIST = Method("Cluster/MemberList")

DEFAULT_QUOTA = 2 * 2**30
"""Bytes, unless the server answers otherwise."""

FULL = 0.8
"""Of the quota."""

ALARMS = {1: "NOSPACE", 2: "CORRUPT"}


class Talk:
    """A conversation with one member: one call at a time."""

    def __init__(self, cluster: Cluster, endpoint: str) -> None:
        self._channel = cluster.channel(endpoint)
        self._metadata: list[tuple[str, str]] = []
        if cluster.user:
            reply = self.ask(AUTHENTICATE, name=cluster.user, password=cluster.password)
            self._metadata.append(("token", reply.token))

    def ask(self, method: Method, **fields: Any) -> Any:
        """The reply; raises `NoAnswer` or `Rejected`."""
        call, request = method.on(self._channel), method.request(**fields)
        try:
            return call(request, timeout=examining.TIMEOUT, metadata=self._metadata)
        except grpc.RpcError as error:
            return accepted(read_error(error))

    def close(self) -> None:
        """End it."""
        self._channel.close()


@dataclass(frozen=True, slots=True)
class Seen:
    """What answers at one endpoint: its figures, and what is to be said of it."""

    node: NodeInfo
    voter: int = 0
    """The id of the member; 0 if it has no leader, or is a learner, and so has no vote."""
    voters: int = 0
    """How many members have a vote; 0 if it does not tell."""
    findings: Sequence[Finding] = ()


def nodes(cluster: Cluster) -> list[NodeInfo]:
    """Each endpoint."""
    return [each.node for each in _see(cluster, None)]


def examine(cluster: Cluster, ttl: float) -> Iterator[Finding]:
    """Each endpoint, and then the cluster."""
    found = _see(cluster, ttl)
    for each in found:
        if each.node.error:
            others = len(found) > 1
            yield examining.unreachable(each.node.name, each.node.error, others=others)
        yield from each.findings
    answering = [each for each in found if each.node.answers]
    if len(found) > 1 and not answering:
        yield examining.unreachable("the cluster", "none of its members does")
    elif answering:
        yield from _alarms(cluster, answering[0].node.name)
        yield from _examine_all(cluster, answering[0])


def _see(cluster: Cluster, ttl: float | None) -> list[Seen]:
    """`ttl`: of the locks to examine it for; None: only the figures are wanted."""
    found = examining.side_by_side(partial(_see_one, cluster, ttl), cluster.endpoints)
    votes = {each.voter for each in found if each.voter}
    voters = max(each.voters for each in found)
    nodes = examining.with_margin([each.node for each in found], len(votes), voters)
    return [replace(each, node=node) for each, node in zip(found, nodes, strict=True)]


def _see_one(cluster: Cluster, ttl: float | None, endpoint: str) -> Seen:
    findings = list[Finding]()
    try:
        talk = Talk(cluster, endpoint)
    except (NoAnswer, Rejected) as error:
        return Seen(examining.silent(endpoint, error))

    def ask() -> None:
        talk.ask(STATUS)

    try:
        node, status = examining.figures(endpoint, ask), talk.ask(STATUS)
        if ttl is not None:
            findings.extend(_examine_one(ttl, endpoint, talk, status))  # up to an error, if any
        voters: list[Any] = []
        with suppress(Rejected):
            voters = [each for each in talk.ask(MEMBER_LIST).members if not each.isLearner]
        may_vote = status.leader and not status.isLearner
        voter = status.header.member_id if may_vote else 0
        return Seen(node, voter, len(voters), findings)
    except (NoAnswer, Rejected) as error:
        return Seen(examining.silent(endpoint, error), findings=findings)
    finally:
        talk.close()


def _examine_one(ttl: float, endpoint: str, talk: Talk, status: Any) -> Iterator[Finding]:
    yield from examining.judge_version(endpoint, status.version, OLDEST, NEWEST)
    version = examining.numbers(status.version)
    if len(version) > 2 and version[2] < SAFE.get(version[:2], 0):
        yield Finding(
            "warning",
            endpoint,
            f"its version is {status.version}",
            "a leader of this version that was stopped, and goes on, ends leases that are alive",
            f"upgrade it to {version[0]}.{version[1]}.{SAFE[version[:2]]} or later",
        )
    if not status.leader:
        yield Finding(
            "critical",
            endpoint,
            "it has no leader",
            "nothing can be written, and leases are not renewed",
            "look whether a majority of the members runs and reaches each other",
        )
    if status.isLearner:
        yield Finding(
            "warning", endpoint, "it is a learner", "it does not answer requests", "promote it"
        )
    for error in status.errors:
        yield Finding("warning", endpoint, error, "etcd reports it itself", "")
    quota = status.dbSizeQuota or DEFAULT_QUOTA
    if status.dbSize > FULL * quota:
        yield Finding(
            "warning",
            endpoint,
            f"its database has {status.dbSize / quota:.0%} of a quota of {quota / 2**30:.1f} GB",
            "a cluster that is full refuses new locks",
            "compact and defragment it, or raise --quota-backend-bytes",
        )
    trips = examining.round_trips(lambda: talk.ask(STATUS))
    yield examining.judge_round_trips(endpoint, trips, node_timeout(ttl))


def _alarms(cluster: Cluster, endpoint: str) -> Iterator[Finding]:
    try:
        talk = Talk(cluster, endpoint)
        with closing(talk):
            alarms = talk.ask(ALARM, action=0).alarms
    except (NoAnswer, Rejected) as error:
        yield examining.unreachable(endpoint, error, others=len(cluster.endpoints) > 1)
        return
    for alarm in alarms:
        kind = ALARMS.get(alarm.alarm, str(alarm.alarm))
        yield Finding(
            "critical",
            f"the member {alarm.memberID:x}",
            f"it has raised the alarm {kind}",
            "the cluster refuses to write until that is settled",
            "make room, or replace the member; then etcdctl alarm disarm",
        )


def _examine_all(cluster: Cluster, seen: Seen) -> Iterator[Finding]:
    voters = seen.voters
    where = f"the cluster of {voters}"
    yield from examining.judge_margin(where, seen.node, voters)
    if 0 < voters < 3:
        yield Finding(
            "note",
            where,
            "it survives the failure of no member",
            "while one is down, nothing can be acquired or renewed",
            "use three or five members",
        )
    if voters > 1 and len(cluster.endpoints) == 1:
        yield Finding(
            "warning",
            where,
            "the URL names one member",
            "if that one is down, this client has none to turn to",
            "name all of them, separated by commas",
        )
