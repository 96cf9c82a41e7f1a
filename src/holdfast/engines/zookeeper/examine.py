"""What is to be said of a ZooKeeper ensemble, for a doctor: see `holdfast doctor`."""

import re
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial

from holdfast.core.lease_state import node_timeout
from holdfast.core.records import Finding
from holdfast.engines import examining
from holdfast.engines.zookeeper.connection import Servers

OLDEST, NEWEST = "3.6", "3.9"
"""The versions that it was tried with lie between these; 3.8 is tested."""


def examine(servers: Servers, ttl: float) -> Iterator[Finding]:
    """Each server, and then the ensemble."""
    modes, answered = [], False
    for host in servers.hosts:
        try:
            facts = _facts(servers, host, "srvr")
            answered = True
            if not facts:
                yield Finding(
                    "note",
                    host,
                    "it does not answer `srvr`",
                    "nothing can be said about its version and its role",
                    "add srvr and conf to 4lw.commands.whitelist, at least while you look",
                )
                continue
            modes.append(facts.get("Mode", ""))
            yield from _examine_one(host, facts, _facts(servers, host, "conf"), ttl)
            trips = examining.round_trips(partial(_send, servers, host, "srvr"))
            yield examining.judge_round_trips(host, trips, node_timeout(ttl))
        except OSError as error:
            yield examining.unreachable(host, error, others=len(servers.hosts) > 1)
    if servers.hosts and not answered:
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


def _examine_one(
    host: str, facts: dict[str, str], conf: dict[str, str], ttl: float
) -> Iterator[Finding]:
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
    return "" if "not executed because" in text else text
