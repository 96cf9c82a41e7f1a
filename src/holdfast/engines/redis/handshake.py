"""The handshake on a new connection: the protocol's version, and what a quorum must know of a node.

HELLO 3 turns pushes on, which carry the wake-ups. A server or proxy that refuses it is served as
well, but its waiters poll.

Over a quorum, the restart guard must know who the node is, and since when it has been up; and all
clients must agree on the longest ttl, which is stored on the nodes.
"""

from math import inf

from holdfast.core.messages import DONE, Answer
from holdfast.core.ports import Clock
from holdfast.core.restart_guard import RestartGuard
from holdfast.engines.redis.protocol import Answers, Exchange, Reply, command, failed, load_scripts

MAX_TTL_KEY = b"{holdfast}:max_ttl"  # no lock has braces in its key


class Handshake:
    """For a server that is not one of several."""

    def __init__(self) -> None:
        self.no_resp3 = ""
        """Why the server speaks no RESP3; empty if it does."""

    def exchange(self) -> Exchange:
        """What to send first on a connection, and how to read it: `DONE` or `Failed`."""
        return Exchange((command(b"HELLO", b"3"), *self._commands()), self._read)

    def _read(self, replies: list[Reply]) -> Answers:
        hello = replies[0]
        refused = isinstance(hello, Exception)
        if refused and str(hello).startswith("NOAUTH"):
            return [failed(hello)]
        self.no_resp3 = f"no RESP3: {hello}" if refused else ""
        return [self._judge(*replies[1:])]

    def quarantine(self) -> float:
        """For how many seconds the server has no vote, since it has restarted."""
        return 0.0

    def _commands(self) -> tuple[bytes, ...]:
        return ()

    def _judge(self, *replies: Reply) -> Answer:
        return DONE


class NodeHandshake(Handshake):
    """For one node of a quorum. `max_ttl` is what this client allows; `guarded`: the restart guard
    is on, so it must be the same for all clients."""

    def __init__(self, guard: RestartGuard, clock: Clock, max_ttl: float, *, guarded: bool) -> None:
        super().__init__()
        self._guard, self._clock = guard, clock
        self._longest, self._guarded = round(max_ttl * 1000), guarded

    def quarantine(self) -> float:
        """For how many seconds it has no vote, since it has restarted."""
        return self._guard.restarted_until - self._clock()

    def _commands(self) -> tuple[bytes, ...]:
        longest = command(b"SET", MAX_TTL_KEY, b"%d" % self._longest, b"NX")
        guarding = (command(b"CONFIG", b"GET", b"*append*"), longest) if self._guarded else ()
        # A round is over before a node that has yet to load its scripts could be asked again.
        asking = (command(b"INFO", b"server"), command(b"GET", MAX_TTL_KEY), *load_scripts())
        return (*guarding, *asking)

    def _judge(self, *replies: Reply) -> Answer:
        """With the guard on, all clients must have the same `max_ttl`. With the guard off, it must
        not be longer than theirs, which would undo their guards, and a user without the right to
        ask `INFO` does without the check for twins."""
        config, stored, info, theirs = replies[:4] if self._guarded else ((), None, *replies[:2])
        for reply in (stored, theirs, info if self._guarded else None):
            if isinstance(reply, Exception):
                return failed(reply)
        if self._guarded and theirs is None:
            return failed("{holdfast}:max_ttl was deleted by another client just now")
        if theirs is not None and not theirs.isdigit():
            return failed("{holdfast}:max_ttl, the longest ttl of all clients, is no number", inf)
        allowed = self._longest if theirs is None else int(theirs)
        if self._longest != allowed if self._guarded else self._longest > allowed:
            return failed(
                f"max_ttl is {allowed / 1000:g} s there and {self._longest / 1000:g} s here; all "
                "clients must agree (to change it, stop them all and delete {holdfast}:max_ttl on "
                "every node)",
                inf,
            )
        known = facts(info)
        if "run_id" in known:
            uptime = float(known["uptime_in_seconds"]) if self._guarded else 0.0
            self._guard.met(known["run_id"], uptime, is_durable(facts(config)), self._clock())
        elif self._guarded:
            return failed("INFO has no run_id, without which there is no restart_guard", inf)
        return DONE


def facts(reply: Reply) -> dict[str, str]:
    """Names and values, of a reply to INFO or to CONFIG GET; empty if that was refused."""
    if isinstance(reply, bytes):
        pairs = (line.partition(":") for line in _text(reply).splitlines())
        return {name: value for name, _, value in pairs}
    if isinstance(reply, list):  # of RESP2
        reply = dict(zip(reply[::2], reply[1::2], strict=True))
    known = reply if isinstance(reply, dict) else {}
    return {_text(name): _text(value) for name, value in known.items()}


def _text(value: bytes) -> str:
    """Of any bytes, as those of a path."""
    return value.decode(errors="replace")


def is_durable(settings: dict[str, str]) -> bool:
    """Whether a server with these settings writes every change to its disk before it answers. One
    that does not show its settings is taken for one that loses data."""
    return (
        settings.get("appendonly") == "yes"
        and settings.get("appendfsync") == "always"
        and settings.get("no-appendfsync-on-rewrite") == "no"
    )
