"""What is to be said of a ZooKeeper ensemble, for a doctor: see `holdfast doctor`."""

import re
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

from holdfast.core.ports import node_timeout
from holdfast.core.records import Finding, NodeInfo
from holdfast.engines import examining
from holdfast.engines.zookeeper.connection import Servers

OLDEST, NEWEST = "3.6", "3.9"
"""The versions that it was tried with lie between these; 3.8 is tested."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One server: its figures, its role, and what is to be said of it."""

    node: NodeInfo
    mode: str = ""
    """leader, follower, observer or standalone; empty if it does not tell."""
    voters: int = 0
    """How many servers of its ensemble have a vote; 0 if it stands alone, or does not tell."""
    findings: Sequence[Finding] = ()


def nodes(servers: Servers) -> list[NodeInfo]:
    """Each server."""
    return [each.node for each in _see(servers, None)]


def examine(servers: Servers, ttl: float) -> Iterator[Finding]:
    """Each server, and then the ensemble."""
    found = _see(servers, ttl)
    for each in found:
        if each.node.error:
            others = len(found) > 1
            yield examining.unreachable(each.node.name, each.node.error, others=others)
        yield from each.findings
    modes = [each.mode for each in found if each.mode]
    if len(found) > 1 and not any(each.node.answers for each in found):
        yield examining.unreachable("the ensemble", "none of its servers does")
    elif modes == ["standalone"]:
        yield Finding(
            "note",
            "the ensemble",
            "it is one server",
            "while that is down, nothing can be acquired or renewed",
            "use three or five servers",
        )
    elif len(modes) > 1 and "standalone" in modes:
        yield Finding(
            "critical",
            "the ensemble",
            "some of its servers stand alone",
            "each of them grants locks without the others",
            "give all servers the same list of servers",
        )
    elif len(servers.hosts) == 1 and modes:
        yield Finding(
            "warning",
            "the ensemble",
            "the URL names one server",
            "if that one is down, this client has none to turn to",
            "name all of them, separated by commas",
        )
    voters = max((each.voters for each in found), default=0)
    if voters:
        yield from examining.judge_margin("the ensemble", found[0].node, voters)


def _see(servers: Servers, ttl: float | None) -> list[Seen]:
    """`ttl`: of the locks to examine them for; None: only the figures are wanted."""
    found = examining.side_by_side(partial(_see_one, servers, ttl), servers.hosts)
    votes = sum(each.mode in ("leader", "follower") for each in found)
    voters = max((each.voters for each in found), default=0)
    nodes = examining.with_margin([each.node for each in found], votes, voters)
    return [replace(each, node=node) for each, node in zip(found, nodes, strict=True)]


def _see_one(servers: Servers, ttl: float | None, host: str) -> Seen:
    findings = list[Finding]()

    def ask() -> None:
        _send(servers, host, "srvr")

    try:
        node = examining.figures(host, ask)
        facts, conf = _facts(servers, host, "srvr"), _facts(servers, host, "conf")
        if ttl is not None:
            findings.extend(_examine_one(servers, ttl, host, facts, conf))  # up to an error, if any
    except OSError as error:
        return Seen(examining.silent(host, error), findings=findings)
    members = [text for name, text in conf.items() if re.fullmatch(r"server\.\d+", name)]
    voters = sum("observer" not in text for text in members)
    return Seen(node, facts.get("Mode", ""), voters, findings)


def _examine_one(
    servers: Servers, ttl: float, host: str, facts: dict[str, str], conf: dict[str, str]
) -> Iterator[Finding]:
    if not facts:
        yield Finding(
            "note",
            host,
            "it does not answer `srvr`",
            "nothing can be said about its version and its role",
            "add srvr and conf to 4lw.commands.whitelist, at least while you look",
        )
        return
    version = facts.get("Zookeeper version", "")
    yield from examining.judge_version(host, version, OLDEST, NEWEST)
    longest = float(conf.get("maxSessionTimeout", 0)) / 1000
    if longest and ttl > longest:
        yield Finding(
            "warning",
            host,
            f"its sessions last for at most {longest:g} s, and the ttl is {ttl:g} s",
            "a lease lasts no longer than the session that it belongs to",
            "raise maxSessionTimeout, or use a shorter ttl",
        )
    shortest, tick = float(conf.get("minSessionTimeout", 0)), float(conf.get("tickTime", 0))
    if conf and shortest < 2 * tick:
        yield Finding(
            "critical",
            host,
            f"its minSessionTimeout of {shortest:g} ms is less than two ticks of {tick:g} ms",
            "a session may end before its holder thinks so, unless the URL names the tick",
            f"leave minSessionTimeout out, or add tick={tick / 1000:g} to the URL",
        )
    trips = examining.round_trips(partial(_send, servers, host, "srvr"))
    yield examining.judge_round_trips(host, trips, node_timeout(ttl))


def _facts(servers: Servers, host: str, word: str) -> dict[str, str]:
    """What a server reports of itself; empty if it is not allowed to."""
    lines = _send(servers, host, word).splitlines()
    pairs = (re.split(r": ?|=", line, maxsplit=1) for line in lines if re.search("[:=]", line))
    return dict(pairs)


def _send(servers: Servers, host: str, word: str) -> str:
    name, _, port = host.rpartition(":")
    name = name.strip("[]")
    give_up_at = time.monotonic() + examining.TIMEOUT
    sock: socket.socket = socket.create_connection((name, int(port)), examining.TIMEOUT)
    if servers.security is not None:
        sock = servers.security.secure(sock, name)
    received = b""
    with closing(sock):
        sock.sendall(word.encode())
        while time.monotonic() < give_up_at and (more := sock.recv(65536)):
            received += more
    text = received.decode(errors="replace")
    if "not currently serving requests" in text:
        raise ConnectionError("it serves no requests now: it is not in touch with a majority")
    if not text or "\0" in text:
        raise ConnectionError("it does not answer as a ZooKeeper server does")
    return "" if "not executed because" in text else text
