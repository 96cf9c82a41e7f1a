"""The queue of a single server: who is offered the lock, and who is told when an offer lapses."""

from collections.abc import Iterator

import pytest

from holdfast.core.messages import DONE, Acquire, Granted, Held, Release
from holdfast.engines.redis.commands import Commands
from holdfast.lab.servers.redis import RedisServer
from tests.engines.redis.conftest import Invite
from tests.engines.redis.party import Bare, Party
from tests.patience import wait_for

LASTING = 60.0
"""Seconds that an offer lasts here: none is over too soon on a busy machine."""


class Process(Bare):
    """One that asks, and hears its wake-ups, as a process with one client does."""

    def __init__(
        self,
        server: RedisServer,
        channel: str,
        offer: float = LASTING,
    ) -> None:
        super().__init__(server, quorum=False)
        self.commands = Commands(quorum=False, keep=3600.0, channel=channel, offer=offer)
        self._ear = Bare(server)
        self._ear._socket.sendall(f"SUBSCRIBE {channel}\r\n".encode())
        self._ear.reply()

    def waits(self, holder: str, tries: int = 0) -> None:
        [answer] = self.ask(Acquire("job", holder, 60.0, queue=True, tries=tries))
        assert isinstance(answer, Held)

    def confirms(self, holder: str) -> int:
        [answer] = self.ask(Acquire("job", holder, 60.0, queue=True))
        assert isinstance(answer, Granted)
        return answer.fence

    def releases(self, holder: str) -> None:
        assert list(self.ask(Release("job", holder))) == [DONE]

    @property
    def heard(self) -> list[str]:
        """All that it has heard since the last time."""
        self._ear._socket.sendall(b"PING\r\n")  # answered behind whatever was published before
        words: list[str] = []
        while (reply := self._ear.reply())[0] != b"pong":
            words.append(reply[2].decode())
        return words

    def close(self) -> None:
        self._ear.close()
        super().close()


@pytest.fixture
def processes(server: RedisServer) -> Iterator[list[Process]]:
    made = [Process(server, f"channel-{name}") for name in "abcde"]
    made[0].ask(Acquire("job", "me", 60.0))  # the scripts are loaded now, and the lock is taken
    yield made
    for process in made:
        process.close()


def test_a_lock_changes_hands_by_four_scripts(server: RedisServer, invite: Invite) -> None:
    """Two acquires, of which one waits in the queue from its first request; a release; and the
    confirmation of the waiter."""
    ann, ben = invite(server.url, ttl=LASTING), invite(server.url, ttl=LASTING)
    for party in (ann, ben):
        party(party.takes("warm-up").release)
    server.command("CONFIG", "RESETSTAT")
    lease = ann.takes()
    waiting = ben.begin(ben.client.lock("job").acquire)
    wait_for(lambda: server.info("commandstats")["cmdstat_evalsha"].startswith("calls=2,"))
    ann(lease.release)
    theirs = waiting.result(30)
    assert server.info("commandstats")["cmdstat_evalsha"].startswith("calls=4,")
    ben(theirs.release)


def heard_by(processes: list[Process]) -> list[list[str]]:
    return [process.heard for process in processes]


def test_the_last_in_the_queue_is_told_how_long_an_offer_lasts_and_guards_the_next_ones(
    processes: list[Process],
) -> None:
    a, b, c, d, _ = processes
    for number, process in enumerate(processes):
        process.waits(f"w{number}")
    a.releases("me")
    assert heard_by(processes) == [["w0"], [], [], [], ["w4 60000"]]
    a.waits("behind")
    for number, process in enumerate((a, b, c)):
        process.confirms(f"w{number}")
        process.releases(f"w{number}")
    assert heard_by(processes) == [[], ["w1"], ["w2"], ["w3"], []]
    d.confirms("w3")
    d.releases("w3")
    assert heard_by(processes) == [["behind 60000"], [], [], [], ["w4"]]


def test_the_guard_is_of_another_process_than_the_one_who_is_offered_it(
    processes: list[Process],
) -> None:
    a, b, c, *_ = processes
    for process, holder in ((a, "a1"), (b, "b1"), (c, "c"), (b, "b2"), (a, "a2")):
        process.waits(holder)
    a.releases("me")
    assert heard_by(processes) == [["a1"], ["b2 60000"], [], [], []]
    a.confirms("a1")
    a.releases("a1")
    assert heard_by(processes) == [["a2 60000"], ["b1"], [], [], []]
    b.confirms("b1")
    b.releases("b1")
    assert heard_by(processes) == [[], [], ["c"], [], []]


def test_a_guard_that_gives_up_or_is_dead_has_a_successor(processes: list[Process]) -> None:
    a, _, _, d, e = processes
    for number, process in enumerate(processes):
        process.waits(f"w{number}")
    e.close()
    a.releases("me")
    assert heard_by(processes[:4]) == [["w0"], [], [], ["w3 60000"]]
    d.ask(Release("job", "w3"))
    a.confirms("w0")
    a.releases("w0")
    assert heard_by(processes[:4]) == [[], ["w1"], ["w2 60000"], []]


def test_a_guard_that_gives_up_leaves_the_offer_to_another(processes: list[Process]) -> None:
    """Else nobody would look when it is over, if it was made to a process that is stopped."""
    a, *_, e = processes
    for number, process in enumerate(processes):
        process.waits(f"w{number}")
    a.releases("me")
    assert heard_by(processes) == [["w0"], [], [], [], ["w4 60000"]]
    e.ask(Release("job", "w4"))
    assert heard_by(processes) == [[], [], [], ["w3 60000"], []]


def test_a_guard_is_found_although_the_last_ten_are_of_one_process(
    processes: list[Process],
) -> None:
    a, b, *_ = processes
    a.waits("a0")
    b.waits("b0")
    for number in range(1, 12):
        a.waits(f"a{number}")
    b.releases("me")
    assert heard_by(processes)[:2] == [["a0"], ["b0 60000"]]


def test_a_guard_has_a_successor_before_it_looks(
    server: RedisServer, processes: list[Process]
) -> None:
    """Else an offer that is made just then would have nobody to look when it is over."""
    a, b, c, *_ = processes
    for process, holder in ((a, "a"), (b, "b"), (c, "c")):
        process.waits(holder)
    a.releases("me")
    assert 0 < int(str(server.command("PTTL", "{job}:queue:guard"))) <= LASTING * 1000 * 0.9
    server.command("DEL", "{job}:queue:guard")  # its time is over
    a.confirms("a")
    a.releases("a")
    assert heard_by(processes) == [["a"], ["b"], ["c 60000", "c 60000"], [], []]


def test_places_that_could_not_be_released_keep_nobody_from_the_lock(
    server: RedisServer, invite: Invite
) -> None:
    """The connection of their client is closed, and they are released later."""
    ann, ben = invite(server.url, ttl=60), invite(server.url, ttl=60)
    held = ann.takes()
    waiting = [ben.begin(ben.client.lock("job").acquire, timeout=1.0) for _ in range(3)]
    wait_for(lambda: ann(ann.client.inspect, "job").waiters == 3)
    server.command("REPLICAOF", "127.0.0.1", "1")  # from now on it carries nothing out
    try:
        assert [each.result() for each in waiting] == [None] * 3
    finally:
        server.command("REPLICAOF", "NO", "ONE")
    wait_for(lambda: ann(ann.client.inspect, "job").waiters == 0)
    ann(held.release)


@pytest.fixture
def client(server: RedisServer, invite: Invite) -> Party:
    return invite(server.url, prefix="", ttl=60)


def test_the_next_one_moves_on_what_a_stopped_process_was_offered(
    server: RedisServer, client: Party
) -> None:
    me, ann = "host/1/program/me", "host/1/program/ann"
    stopped = Process(server, "channel-a", 0.5)
    stopped.ask(Acquire("job", me, 60.0))
    stopped.waits(ann)
    waiting = client.begin(client.client.lock("job").acquire, timeout=30)
    wait_for(lambda: (info := client(client.client.inspect, "job")) and info.waiters == 2)
    stopped.releases(me)
    lease = waiting.result(40)
    assert lease
    assert stopped.heard == [ann]
    client(lease.release)
    stopped.close()


def test_several_stopped_processes_in_a_row_cost_an_offer_each(
    server: RedisServer, client: Party
) -> None:
    me = "host/1/program/me"
    stopped = [Process(server, f"channel-{name}", 0.5) for name in "abc"]
    stopped[0].ask(Acquire("job", me, 60.0))
    for number, process in enumerate(stopped):
        process.waits(f"host/1/program/{number}")
    waiting = client.begin(client.client.lock("job").acquire, timeout=30)
    wait_for(lambda: (info := client(client.client.inspect, "job")) and info.waiters == 4)
    stopped[0].ask(Release("job", me))
    lease = waiting.result(40)
    assert lease
    assert [{*heard} for heard in heard_by(stopped)] == [
        {f"host/1/program/{number}"} for number in range(3)
    ]
    client(lease.release)
    for process in stopped:
        process.close()


def test_if_the_guard_is_stopped_too_it_is_held_up_until_the_holders_time_is_over(
    server: RedisServer, client: Party
) -> None:
    """It is moved on by whoever looks when the former holder could have had it no longer."""
    me = "host/1/program/me"
    first, guard = (Process(server, f"channel-{name}", 0.5) for name in "ab")
    first.ask(Acquire("job", me, 1.0))
    first.waits("host/1/program/first")
    waiting = client.begin(client.client.lock("job").acquire, timeout=30)
    look = client.client.inspect
    wait_for(lambda: waiting.done() or ((info := client(look, "job")) and info.waiters == 2))
    guard.waits("host/1/program/guard")
    first.ask(Release("job", me))
    lease = waiting.result(40)
    assert lease
    client(lease.release)
    for process in (first, guard):
        process.close()
