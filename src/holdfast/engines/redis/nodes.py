"""The servers of one client: how to connect, which are well, which may vote, who waits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

from holdfast.core.fanout import FanOut
from holdfast.core.guard import RestartGuard
from holdfast.core.messages import (
    DONE,
    Acquire,
    Answer,
    Break,
    Extend,
    Failed,
    HandedOver,
    Held,
    Inspect,
    List,
    Read,
    Request,
    Write,
)
from holdfast.core.ports import StoreHost
from holdfast.core.quorum import Quorum
from holdfast.engines.redis.addresses import Address
from holdfast.engines.redis.owing import Owing
from holdfast.engines.redis.phrases import (
    Answers,
    Phrase,
    Reply,
    Speaker,
    command,
    failed,
    load_scripts,
)
from holdfast.engines.redis.speech import Speech
from holdfast.events import NodeFailed, NodeRecovered

CONNECT_TIMEOUT = 1.0
"""How long a connection that nobody waits for may take to be made."""

FIRST_CONTACT = 0.5
"""How long to wait for connections while there are too few for a quorum."""

REDIAL_AFTER = 0.2
"""How long a node that could not be reached is left alone."""

LEAST_PATIENCE = 0.05
"""Whoever asks now and then may do so just before its time is over. That is no server's failure."""

MAX_OWED = 1000
"""How many answers a node may owe on one connection before nothing more is said to it."""

AT_WORK = 0.002
"""For how long connections that have just been looked at are taken to be well. It is shorter than
any node's time to answer: one that has let that pass is found out before it is asked again."""

SILENT = "did not answer in time"
GONE = "this client is closed"

MAX_TTL_KEY = b"{holdfast}:max_ttl"  # no lock has braces in its key


_NO_NUMBER = "{holdfast}:max_ttl, where clients keep the longest ttl, is no number"


class RefusedError(Exception):
    """The server was reached, but cannot be used; the text says why."""


@dataclass(slots=True)
class Node:
    """One server of a client."""

    index: int
    address: Address
    guard: RestartGuard
    around: StoreHost
    alone: bool = False
    """Whether there is no other: then its failures are told to the caller anyway."""
    max_ttl: float | None = None
    """The longest ttl that all clients have agreed on, where the restart guard is on."""
    longest: float = 0.0
    """The longest ttl of this client's."""
    trouble: str = ""

    @property
    def name(self) -> str:
        """Its address."""
        return self.address.name

    def is_in_trouble(self, why: str) -> None:
        """It failed to answer."""
        if not self.trouble and not self.alone:
            self.around.emit(NodeFailed(self.name, why))
        self.trouble = why

    def is_well(self) -> None:
        """It answered again."""
        self.trouble = ""
        if not self.alone:
            self.around.emit(NodeRecovered(self.name))

    def greeting(self) -> Phrase | None:
        """What to ask on a new connection, before anything else."""
        if self.max_ttl is None:
            if self.alone:
                return None
            asking = (command(b"INFO", b"server"), command(b"GET", MAX_TTL_KEY))
            return Phrase(
                (*asking, *load_scripts()), lambda replies: [self._greeted_unguarded(*replies[:2])]
            )
        commands = (
            command(b"INFO", b"server"),
            command(b"CONFIG", b"GET", b"*append*"),
            command(b"SET", MAX_TTL_KEY, b"%d" % round(self.max_ttl * 1000), b"NX"),
            command(b"GET", MAX_TTL_KEY),
        )
        # A vote is over before a node that has yet to load its scripts could be asked again.
        return Phrase(
            (*commands, *load_scripts()),
            lambda replies: [self._greeted(self.max_ttl or 0, *replies[: len(commands)])],
        )

    def _greeted_unguarded(self, info: Reply, theirs: Reply) -> Answer:
        """Without the restart guard: a client that has it on must not be undone by a longer ttl
        than its own. A user without the right to ask `INFO` does without the check for twins."""
        run = _facts(info).get(b"run_id") if isinstance(info, bytes) else None
        if run:
            self.guard.met(run.decode(), 0.0, False, self.around.clock())
        if theirs is None:
            return DONE
        if not isinstance(theirs, bytes) or not theirs.isdigit():
            return failed(theirs if isinstance(theirs, Exception) else _NO_NUMBER)
        if self.longest * 1000 > int(theirs):
            return failed(_disagreement(int(theirs) / 1000, self.longest))
        return DONE

    def _greeted(
        self, ours: float, info: Reply, config: Reply, stored: Reply, theirs: Reply
    ) -> Answer:
        for reply in (info, stored, theirs):
            if isinstance(reply, Exception):
                return failed(reply)
        if not theirs.isdigit():
            return failed(_NO_NUMBER)
        if round(ours * 1000) != int(theirs):
            return failed(_disagreement(int(theirs) / 1000, ours))
        facts = _facts(info)
        if b"run_id" not in facts:
            return failed("INFO has no run_id, without which there is no restart_guard")
        # A server that does not tell its settings may be one that forgets.
        words = [] if isinstance(config, Exception) else config
        settings = dict(zip(words[::2], words[1::2], strict=True))
        durable = (
            settings.get(b"appendonly") == b"yes"
            and settings.get(b"appendfsync") == b"always"
            and settings.get(b"no-appendfsync-on-rewrite") == b"no"
        )
        run, uptime = facts[b"run_id"].decode(), float(facts[b"uptime_in_seconds"])
        self.guard.met(run, uptime, durable, self.around.clock())
        return DONE


def _facts(info: bytes) -> dict[bytes, bytes]:
    parts = (line.partition(b":") for line in info.split(b"\r\n"))
    return {name: value for name, _, value in parts}


def _disagreement(theirs: float, ours: float) -> str:
    return (
        f"max_ttl is {theirs:g} s there and {ours:g} s here; all clients must agree (to change it, "
        "stop them all and delete {holdfast}:max_ttl on every node)"
    )


def accept(answers: Answers | Phrase) -> None:
    """Raise if a greeting came to nothing."""
    first = answers[0]
    if isinstance(first, Failed):
        raise RefusedError(first.nodes[0][1])


def first_contact_until(poll: FanOut, began: float) -> float:
    """Until when to wait for connections while there are too few for a quorum."""
    give_up_at = began + FIRST_CONTACT
    # Whoever extends a lease must be told of its loss in time.
    return min(give_up_at, poll.until) if isinstance(poll.requests[0], Extend) else give_up_at


@dataclass(slots=True)
class Fleet:
    """All that the two ways of speaking to the servers have in common."""

    nodes: Sequence[Node]
    speech: Speaker
    quorum: Quorum | None
    """How several make up one; None for a single server."""
    around: StoreHost
    channel: str
    waiting: set[str] = field(default_factory=set)
    """The holder ids of those in a queue."""
    heard_of: set[int] = field(default_factory=set)
    """The nodes whose wake-ups reach us."""
    wakes: bool = True
    """Whether a release wakes anybody at all."""
    owing: Owing = field(default_factory=Owing)

    @property
    def direct(self) -> Speech | None:
        """How to say the usual to a single server in one command; None if that is not enough."""
        speech = self.speech
        simple = type(speech) is Speech and not speech.replicas and self.quorum is None
        return cast(Speech, speech) if simple else None

    def forked(self) -> None:
        """In a forked child: nobody waits for anything, and nothing is under way."""
        self.waiting.clear()
        self.heard_of.clear()
        self.speech.listening = False
        self.owing = Owing()
        for node in self.nodes:
            node.trouble = ""

    def answers(self, poll: FanOut) -> Sequence[Answer]:
        """What a single server answered."""
        answers = poll.answers.get(0)
        if answers is None:
            answers = [failed(SILENT)] * len(poll.requests)
        if type(answers[0]) is Failed or len(answers) > 1:
            name = self.nodes[0].name
            return [Failed.at(name, a.nodes[0][1]) if type(a) is Failed else a for a in answers]
        return answers

    def time_to_answer(self, until: float) -> float:
        """Until when to wait for the answer to one who is not woken, but asks now and then."""
        return max(until, self.around.clock() + LEAST_PATIENCE)

    def note(self, request: Request, answer: Answer) -> None:
        """Keep in mind who waits."""
        if type(request) is Acquire and request.queue and type(answer) is Held:
            self.waiting.add(request.holder)
        elif self.waiting and not isinstance(request, (Break, List, Inspect, Read, Write)):
            self.waiting.discard(request.holder)

    def heard(self, holder: str, words: list[str], later: Callable[[float, str], None]) -> None:
        """A message on our channel: `holder`, or `holder milliseconds` to be heeded then, or
        `holder fence tries`, to whom the lock was handed over after so many tries, and one. That
        one counts as waiting until it gives it back: the word of it may be lost on its way."""
        if len(words) == 2:
            self.around.hand_over(holder, HandedOver(int(words[0]), int(words[1])))
        elif words:
            later(int(words[0]) / 1000, holder)
        else:
            self.around.notify(holder)

    def listens(self, node: Node) -> None:
        """Its wake-ups reach us (again). Some may have been missed, so all are to ask again."""
        self.heard_of.add(node.index)
        self.speech.listening = True
        for holder in sorted(self.waiting):
            self.around.notify(holder)

    def deaf(self, node: Node) -> None:
        """Its wake-ups reach us no more."""
        self.heard_of.discard(node.index)
        self.speech.listening = bool(self.heard_of)
