"""What is to be said of the servers of Redis, for a doctor: see `holdfast doctor`."""

import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any

import hiredis
from redis.exceptions import RedisError

from holdfast.core.records import Finding, NodeInfo
from holdfast.core.restart_guard import RestartGuard
from holdfast.engines import examining
from holdfast.engines.redis.addresses import Address
from holdfast.engines.redis.handshake import facts, is_durable
from holdfast.engines.redis.protocol import command, explain

OLDEST, NEWEST = "6.0", "9.1"
"""The versions of Redis and Valkey that were tried."""

FULL = 0.9
"""Of the memory that a server may use."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a client expects of its servers."""

    quorum: bool = False
    """Whether they vote."""
    quarantine: float = 0.0
    """For how many seconds a node has no vote after a restart; 0: there is no restart guard."""
    replicas: int = 0
    """How many replicas confirm each grant."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One server: its figures, what it reports of itself, and what is to be said of it."""

    node: NodeInfo
    run: str = ""
    """Its run id; empty if it does not answer, or does not tell."""
    uptime: float = 0.0
    durable: bool = False
    """Whether it writes every change to its disk before it answers."""
    host: str = ""
    findings: Sequence[Finding] = ()


class Talk:
    """A conversation with one server: one command at a time."""

    def __init__(self, address: Address) -> None:
        self._socket, self._keep = address.open(examining.TIMEOUT)
        self._socket.settimeout(examining.TIMEOUT)
        self._reader = hiredis.Reader()

    def ask(self, *words: str) -> Any:
        """The reply; an error of the server is returned, too."""
        self._socket.sendall(command(*(word.encode() for word in words)))
        while (reply := self._reader.gets()) is False:
            received = self._socket.recv(65536)
            if not received:
                raise ConnectionError("the server closed the connection")
            self._reader.feed(received)
        return reply

    def facts(self, *words: str) -> dict[str, str]:
        """The reply to INFO or CONFIG GET; empty if it was refused."""
        return facts(self.ask(*words))

    def clock(self) -> float:
        """What the server takes for the time."""
        reply = self.ask("TIME")
        if isinstance(reply, Exception):
            raise PermissionError(str(reply))
        seconds, micros = reply
        return int(seconds) + int(micros) / 1e6

    def peer(self) -> str:
        """The address of its host."""
        name = self._socket.getpeername()
        return "" if self._socket.family == socket.AF_UNIX else str(name[0])

    def close(self) -> None:
        """End it."""
        self._socket.close()


def nodes(addresses: Sequence[Address], terms: Terms) -> list[NodeInfo]:
    """Each server."""
    return [each.node for each in _see(addresses, terms, None)]


def examine(addresses: Sequence[Address], terms: Terms, node_timeout: float) -> Iterator[Finding]:
    """Each server, and then all of them together."""
    found = _see(addresses, terms, node_timeout)
    others = len(addresses) > 1
    for each in found:
        if each.node.error:
            yield examining.unreachable(each.node.name, each.node.error, others=others)
        yield from each.findings
        if 0 < each.node.quarantine < inf:
            yield _restarted(each)
        why = "a fence is not behind the clock of its server, so after a failover it may go back"
        yield from examining.judge_offset(each.node, why)
    if others and not any(each.node.answers for each in found):
        yield examining.unreachable("all servers", "none of them does")
    elif terms.quorum:
        yield from _examine_all(found)


def _see(addresses: Sequence[Address], terms: Terms, node_timeout: float | None) -> list[Seen]:
    """`node_timeout`: how long a server may take to answer; None: only the figures are wanted."""
    found = examining.side_by_side(partial(_see_one, terms, node_timeout), addresses)
    return _count_votes(found, terms) if terms.quorum else found


def _see_one(terms: Terms, node_timeout: float | None, address: Address) -> Seen:
    name, findings = address.name, list[Finding]()
    try:
        talk = Talk(address)
    except (RedisError, OSError) as error:
        return Seen(NodeInfo(name, explain(error)))
    try:
        node = examining.figures(name, talk.clock)
        server = talk.facts("INFO", "server")
        durable = is_durable(talk.facts("CONFIG", "GET", "*append*"))
        if node_timeout is not None:  # up to an error, if there is one
            findings.extend(_examine_one(terms, node_timeout, name, talk, server))
        uptime = float(server.get("uptime_in_seconds", 0.0))
        return Seen(node, server.get("run_id", ""), uptime, durable, talk.peer(), findings)
    except (OSError, ValueError, TypeError) as error:
        return Seen(NodeInfo(name, explain(error)), findings=findings)
    finally:
        talk.close()


def _count_votes(found: Sequence[Seen], terms: Terms) -> list[Seen]:
    """As a client does that meets these nodes now."""
    guards = [RestartGuard(terms.quarantine, on=terms.quarantine > 0) for _ in found]
    for guard, each in zip(guards, found, strict=True):
        guard.group = guards
        if each.run:
            guard.met(each.run, each.uptime, each.durable, now=0.0)
    nodes = [
        # A node that does not tell whether it has restarted has no vote.
        replace(each.node, quarantine=inf)
        if terms.quarantine and each.node.answers and not each.run
        else replace(each.node, quarantine=max(0.0, guard.quarantined_until))
        for guard, each in zip(guards, found, strict=True)
    ]
    votes = sum(node.answers and not node.quarantine for node in nodes)
    nodes = examining.with_margin(nodes, votes, len(nodes))
    return [replace(each, node=node) for each, node in zip(found, nodes, strict=True)]


def _examine_one(
    terms: Terms, node_timeout: float, name: str, talk: Talk, server: dict[str, str]
) -> Iterator[Finding]:
    if not server:
        yield Finding(
            "note",
            name,
            "this user may not ask for INFO",
            "nothing can be said about persistence, replicas and memory",
            "give it the right to INFO, at least while you look",
        )
    else:
        version = server.get("valkey_version") or server.get("redis_version", "")
        yield from examining.judge_version(name, version, OLDEST, NEWEST)
        yield from _persistence(name, talk, terms)
        yield from _replication(name, talk, terms)
        yield from _memory(name, talk)
    refusal = talk.ask("PUBLISH", "holdfast:doctor", "")
    if isinstance(refusal, Exception):
        yield Finding(
            "warning",
            name,
            f"this user may not publish: {refusal}",
            "its releases wake no waiter: they ask again when its ttl would have ended",
            "give it the rights +publish and &holdfast:*",
        )
    trips = examining.round_trips(lambda: talk.ask("PING"))
    yield examining.judge_round_trips(name, trips, node_timeout)


def _persistence(name: str, talk: Talk, terms: Terms) -> Iterator[Finding]:
    config = talk.facts("CONFIG", "GET", "*append*")
    if terms.quarantine or not config or is_durable(config):
        return
    kept = config.get("appendonly") == "yes" or talk.facts("CONFIG", "GET", "save").get("save")
    yield Finding(
        "note" if kept else "warning",
        name,
        f"a crash or a restart loses {'the last second of grants' if kept else 'all locks'}",
        "the next client is granted what another one still holds",
        "set appendonly yes and appendfsync always, or use a quorum with its restart guard",
    )


def _restarted(seen: Seen) -> Finding:
    return Finding(
        "warning",
        seen.node.name,
        f"it has restarted {seen.uptime:.0f} s ago, and has no vote for "
        f"{seen.node.quarantine:.0f} s more",
        "it may have forgotten leases that are still valid",
        "wait for that long before you restart another node",
    )


def _replication(name: str, talk: Talk, terms: Terms) -> Iterator[Finding]:
    found = talk.facts("INFO", "replication")
    replicas = int(found.get("connected_slaves", 0))
    if found.get("role") == "slave":
        yield Finding(
            "critical",
            name,
            f"it is a replica of {found.get('master_host')}:{found.get('master_port')}",
            "a replica refuses writes, or loses them",
            "name the master",
        )
    elif terms.quorum and replicas:
        yield Finding(
            "warning",
            name,
            f"it has {replicas} replicas",
            "the nodes of a quorum must not be replaced by a replica, which may miss the last lock",
            "do without replicas: the other nodes are what the quorum has instead",
        )
    elif replicas and not terms.replicas:
        yield Finding(
            "warning",
            name,
            f"it has {replicas} replicas, and grants do not wait for them",
            "if it fails, the replica that takes over may have missed the last grants",
            f"add replicas={min(replicas, 1)} to the URL, or use a quorum or a consistent engine",
        )
    elif terms.replicas > replicas:
        yield Finding(
            "critical",
            name,
            f"it has {replicas} replicas, and replicas={terms.replicas} is asked for",
            "no grant can be confirmed by that many",
            "add replicas, or change the option",
        )


def _memory(name: str, talk: Talk) -> Iterator[Finding]:
    memory = talk.facts("INFO", "memory")
    most, used = int(memory.get("maxmemory", 0)), int(memory.get("used_memory", 0))
    policy = memory.get("maxmemory_policy", "noeviction")
    if most and policy != "noeviction":
        yield Finding(
            "critical",
            name,
            f"its maxmemory_policy is {policy}",
            "when its memory is full, it deletes locks that are held",
            "set maxmemory-policy noeviction, or keep the locks on a server of their own",
        )
    if most and used > FULL * most:
        yield Finding(
            "warning",
            name,
            f"{used / most:.0%} of its maxmemory are in use",
            "a server that is full refuses new locks",
            "give it more memory",
        )


def _examine_all(found: Sequence[Seen]) -> Iterator[Finding]:
    answering, size = [each for each in found if each.node.answers], len(found)
    runs = {each.node.name: each.run or each.node.name for each in answering}
    hosts = {each.node.name: each.host for each in answering}
    yield from examining.judge_margin("the quorum", found[0].node, size)
    if size % 2 == 0:
        yield Finding(
            "note",
            "the quorum",
            f"it has {size} nodes",
            f"it survives the failure of as many nodes as one of {size - 1} does",
            "use an odd number of nodes",
        )
    for run, count in Counter(runs.values()).items():
        if count > 1:
            twins = ", ".join(name for name, theirs in runs.items() if theirs == run)
            yield Finding(
                "critical",
                "the quorum",
                f"{twins} are one and the same server",
                "it would have several votes, so nothing is granted at all",
                "name each server once",
            )
    for host, count in Counter(hosts.values()).items():
        if count > 1 and len(set(runs.values())) == len(runs):
            yield Finding(
                "warning",
                "the quorum",
                f"{count} nodes are on the host {host or 'of a Unix socket'}",
                "they fail together",
                "put each node on a host of its own",
            )
