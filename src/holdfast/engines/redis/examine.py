"""What is to be said of the servers of Redis, for a doctor: see `holdfast doctor`."""

import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import hiredis
from redis.exceptions import RedisError

from holdfast.core.records import Finding
from holdfast.engines import examining
from holdfast.engines.redis.addresses import Address
from holdfast.engines.redis.exchange import command

OLDEST, NEWEST = "6.0", "9.1"
"""The versions of Redis and Valkey that were tried."""

FULL = 0.9
"""Of the memory that a server may use."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a client expects of its servers."""

    node_timeout: float
    quorum: int = 0
    """How many nodes are a majority; 0: there is one server."""
    quarantine: float = 0.0
    """For how many seconds a node has no vote after a restart; 0: there is no restart guard."""
    replicas: int = 0
    """How many replicas confirm each grant."""
    fails_over: bool = False


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
        """The reply as names and values: of INFO or of CONFIG GET; empty if it was refused."""
        reply = self.ask(*words)
        if isinstance(reply, bytes):
            pairs = (line.split(":", 1) for line in reply.decode().splitlines() if ":" in line)
            return dict(pairs)
        if isinstance(reply, list):
            texts = [each.decode() for each in reply]
            return dict(zip(texts[::2], texts[1::2], strict=True))
        return {}

    def clock(self) -> float:
        """What the server takes for the time."""
        seconds, micros = self.ask("TIME")
        return int(seconds) + int(micros) / 1e6

    def peer(self) -> str:
        """The address of its host."""
        name = self._socket.getpeername()
        return "" if self._socket.family == socket.AF_UNIX else str(name[0])

    def close(self) -> None:
        """End it."""
        self._socket.close()


def examine(addresses: Sequence[Address], terms: Terms) -> Iterator[Finding]:
    """Each server, and then all of them together."""
    offsets: dict[str, tuple[float, float]] = {}
    runs: dict[str, str] = {}
    hosts: dict[str, str] = {}
    for address in addresses:
        try:
            talk = Talk(address)
        except (RedisError, OSError) as error:
            yield examining.unreachable(address.name, error, others=len(addresses) > 1)
            continue
        try:
            yield from _examine_one(address.name, talk, terms)
            offsets[address.name] = examining.offset_of(talk.clock)
            runs[address.name] = talk.facts("INFO", "server").get("run_id", address.name)
            hosts[address.name] = talk.peer()
        except (OSError, ValueError, TypeError) as error:
            yield examining.unreachable(address.name, error, others=len(addresses) > 1)
        finally:
            talk.close()
    if not runs and len(addresses) > 1:
        yield examining.unreachable("all servers", "none of them does")
    elif terms.quorum:
        yield from _examine_all(addresses, terms, runs, hosts)
    for name, (offset, uncertainty) in offsets.items():
        why = "a fence is not behind the clock of its server, so after a failover it may go back"
        yield from examining.judge_offset(name, offset, uncertainty, why)


def _examine_one(name: str, talk: Talk, terms: Terms) -> Iterator[Finding]:
    server = talk.facts("INFO", "server")
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
        yield from _persistence(name, talk, terms, float(server["uptime_in_seconds"]))
        yield from _replication(name, talk, terms)
        yield from _memory(name, talk)
    yield examining.judge_round_trips(
        name, examining.round_trips(lambda: talk.ask("PING")), terms.node_timeout
    )


def _persistence(name: str, talk: Talk, terms: Terms, uptime: float) -> Iterator[Finding]:
    config = talk.facts("CONFIG", "GET", "*append*")
    durable = config.get("appendonly") == "yes" and config.get("appendfsync") == "always"
    kept = config.get("appendonly") == "yes" or talk.facts("CONFIG", "GET", "save").get("save")
    if config and not durable and not terms.quarantine:
        forgets = "the last second of grants" if kept else "all locks"
        yield Finding(
            "note" if kept else "warning",
            name,
            f"a crash or a restart loses {forgets}",
            "the next client is granted what another one still holds",
            "set appendonly yes and appendfsync always, or use a quorum with its restart guard",
        )
    if terms.quarantine and not durable and uptime < terms.quarantine:
        left = terms.quarantine - uptime
        yield Finding(
            "warning",
            name,
            f"it has restarted {uptime:.0f} s ago, and has no vote for {left:.0f} s more",
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
            "no grant can be confirmed by so many",
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
            "a server that is full refuses new locks and renewals",
            "give it more memory",
        )


def _examine_all(
    addresses: Sequence[Address], terms: Terms, runs: dict[str, str], hosts: dict[str, str]
) -> Iterator[Finding]:
    margin = len(runs) - terms.quorum
    if margin <= 0:
        short = f"{-margin} too few" if margin else "none to spare"
        yield Finding(
            "critical" if margin < 0 else "warning",
            "the quorum",
            f"{len(runs)} of {len(addresses)} nodes answer: {short}",
            "a lock needs a majority of all nodes",
            "repair the nodes that do not answer",
        )
    if len(addresses) % 2 == 0:
        yield Finding(
            "note",
            "the quorum",
            f"it has {len(addresses)} nodes",
            f"it survives the failure of as many nodes as one of {len(addresses) - 1} does",
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
