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

_NO_NUMBER = "{holdfast}:max_ttl, where clients keep the longest ttl, is not a number"


class Handshake:
    """For a server that is not one of several."""

    def __init__(self) -> None:
        self.resp3 = False
        self.why_no_resp3 = ""

    def exchange(self) -> Exchange:
        """What to send first on a connection, and how to read it: `DONE` or `Failed`."""
        return Exchange((command(b"HELLO", b"3"), *self._commands()), self._read)

    def _read(self, replies: list[Reply]) -> Answers:
        hello = replies[0]
        self.resp3 = not isinstance(hello, Exception)
        if isinstance(hello, Exception):
            if str(hello).startswith("NOAUTH"):
                return [failed(hello)]
            self.why_no_resp3 = f"no RESP3: {hello}"
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
        self._max_ttl, self._guarded = max_ttl, guarded

    def quarantine(self) -> float:
        """For how many seconds it has no vote, since it has restarted."""
        return self._guard.restarted_until - self._clock()

    def _commands(self) -> tuple[bytes, ...]:
        # A round is over before a node that has yet to load its scripts could be asked again.
        if not self._guarded:
            return (command(b"INFO", b"server"), command(b"GET", MAX_TTL_KEY), *load_scripts())
        return (
            command(b"INFO", b"server"),
            command(b"CONFIG", b"GET", b"*append*"),
            command(b"SET", MAX_TTL_KEY, b"%d" % round(self._max_ttl * 1000), b"NX"),
            command(b"GET", MAX_TTL_KEY),
            *load_scripts(),
        )

    def _judge(self, *replies: Reply) -> Answer:
        if not self._guarded:
            return self._judge_unguarded(*replies[:2])
        info, config, stored, theirs = replies[:4]
        for reply in (info, stored, theirs):
            if isinstance(reply, Exception):
                return failed(reply)
        if not theirs.isdigit():
            return failed(_NO_NUMBER, inf)
        if round(self._max_ttl * 1000) != int(theirs):
            return self._disagreement(int(theirs))
        facts = _facts(info)
        if b"run_id" not in facts:
            return failed("INFO has no run_id, without which there is no restart_guard", inf)
        run, uptime = facts[b"run_id"].decode(), float(facts[b"uptime_in_seconds"])
        self._guard.met(run, uptime, is_durable(config), self._clock())
        return DONE

    def _judge_unguarded(self, info: Reply, theirs: Reply) -> Answer:
        """Clients that have the guard on must not be undone by a longer ttl than theirs. A user
        without the right to ask `INFO` does without the check for twins."""
        run = None if isinstance(info, Exception) else _facts(info).get(b"run_id")
        if run:
            self._guard.met(run.decode(), 0.0, False, self._clock())
        if theirs is None:
            return DONE
        if isinstance(theirs, Exception):
            return failed(theirs)
        if not theirs.isdigit():
            return failed(_NO_NUMBER, inf)
        return self._disagreement(int(theirs)) if self._max_ttl * 1000 > int(theirs) else DONE

    def _disagreement(self, theirs: int) -> Answer:
        return failed(
            f"max_ttl is {theirs / 1000:g} s there and {self._max_ttl:g} s here; all clients must "
            "agree (to change it, stop them all and delete {holdfast}:max_ttl on every node)",
            inf,
        )


def _facts(info: Reply) -> dict[bytes, bytes]:
    """The lines `name:value` of INFO."""
    pairs = (line.partition(b":") for line in bytes(info).split(b"\r\n"))
    return {name: value for name, _, value in pairs}


def is_durable(config: Reply) -> bool:
    """Whether it writes every change to its disk before it answers. A server that does not show its
    settings is taken for one that loses data."""
    if isinstance(config, Exception):
        return False
    settings = (
        config if isinstance(config, dict) else dict(zip(config[::2], config[1::2], strict=True))
    )
    return (
        settings.get(b"appendonly") == b"yes"
        and settings.get(b"appendfsync") == b"always"
        and settings.get(b"no-appendfsync-on-rewrite") == b"no"
    )
