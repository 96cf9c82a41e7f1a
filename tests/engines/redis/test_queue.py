"""The queue of a single server: who is offered the lock, and who is told when an offer lapses."""

from collections.abc import Iterator

import pytest

from holdfast.core.messages import DONE, Acquire, Granted, Held, Release
from holdfast.engines.redis.commands import READY, Commands
from holdfast.lab.servers.redis import RedisServer
from tests.engines.redis.conftest import Invite
from tests.engines.redis.party import Bare, Party
from tests.patience import wait_for

LASTING = 60.0
"""Seconds that an offer lasts here, and that one stands ready: none is over too soon on a busy
machine."""


class Process(Bare):
    """One that asks, and hears its wake-ups, as a process with one client does."""

    def __init__(
        self,
        server: RedisServer,
        channel: str,
        offer: float = LASTING,
        *,
        hands_over: bool = False,
    ) -> None:
        super().__init__(server, quorum=False)
        self.commands = Commands(
            quorum=False,
            keep=3600.0,
            channel=channel,
            offer=offer,
            ready=LASTING,
            hands_over=hands_over,
        )
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
    assert heard_by(processes) == [[], ["w1", "w1"], ["w2"], ["w3"], []]
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


@pytest.fixture
def prompt(server: RedisServer) -> Iterator[list[Process]]:
    """Processes that say, when they are the next, that they stand ready."""
    made = [Process(server, f"channel-{name}", hands_over=True) for name in "abcde"]
    made[0].ask(Acquire("job", "me", 60.0))
    yield made
    for process in made:
        process.close()


def handed_over(process: Process) -> tuple[str, int, int]:
    """The only thing that it has heard: to whom, the fence, and after how many tries."""
    [message] = process.heard
    holder, fence, tries = message.split()
    return holder, int(fence), int(tries)


def test_who_stands_ready_is_handed_the_lock_and_has_nothing_to_confirm(
    server: RedisServer, prompt: list[Process]
) -> None:
    a, b, c, *_ = prompt
    first = b.confirms("me")
    b.waits("b", tries=3)
    c.waits("c")
    a.releases("me")
    holder, fence, tries = handed_over(b)
    assert (holder, tries) == ("b", 3)
    assert first < fence == b.confirms("b")
    assert c.heard == []  # there is no offer to guard
    assert server.command("GET", "job") == "b"
    assert int(str(server.command("PTTL", "job"))) > 50_000


def test_a_hand_over_lasts_for_the_ttl_and_keeps_the_counter_for_longer(
    server: RedisServer, prompt: list[Process]
) -> None:
    a, b, *_ = prompt
    b.waits("b")
    server.command("PEXPIRE", "{job}:fence", 1000)
    a.releases("me")
    assert 50_000 < int(str(server.command("PTTL", "job"))) <= 60_000
    assert int(str(server.command("PTTL", "{job}:fence"))) > 3_600_000


def test_the_next_one_gets_ready_as_soon_as_somebody_has_got_the_lock(
    prompt: list[Process],
) -> None:
    a, b, c, d, e = prompt
    for process, holder in ((b, "b"), (c, "c")):
        process.waits(holder)
    a.releases("me")
    handed_over(b)
    d.waits("d")  # which has whoever is the next told, once
    e.waits("e")
    assert heard_by(prompt) == [[], [], ["c"], [], []]
    c.waits("c", tries=1)
    b.releases("b")
    assert handed_over(c)[2] == 1


def test_one_who_was_not_told_in_time_is_offered_it(prompt: list[Process]) -> None:
    a, b, c, *_ = prompt
    for process, holder in ((b, "b"), (c, "c")):
        process.waits(holder)
    a.releases("me")
    handed_over(b)
    b.releases("b")
    assert c.heard == ["c"]


def test_one_who_stood_ready_and_gave_up_is_not_handed_it(prompt: list[Process]) -> None:
    a, b, c, *_ = prompt
    for process, holder in ((b, "b"), (c, "c")):
        process.waits(holder)
    b.ask(Release("job", "b"))
    a.releases("me")
    assert heard_by(prompt) == [[], [], ["c"], [], []]


def test_one_who_stood_ready_and_died_is_skipped(
    server: RedisServer, prompt: list[Process]
) -> None:
    a, b, c, *_ = prompt
    for process, holder in ((b, "b"), (c, "c")):
        process.waits(holder)
    b.close()
    wait_for(lambda: server.command("PUBLISH", "channel-b", "nobody") == 0)
    a.releases("me")
    assert c.heard == ["c"]


def test_nobody_stands_ready_for_longer_than_a_moment(
    server: RedisServer, prompt: list[Process]
) -> None:
    """Else one that was stopped meanwhile would hold the others up for a ttl."""
    a, b, *_ = prompt
    b.waits("b")
    assert 0 < int(str(server.command("PTTL", "{job}:queue:next"))) <= LASTING * 1000
    server.command("DEL", "{job}:queue:next")  # the moment is over
    a.releases("me")
    assert b.heard == ["b"]
    assert READY <= 0.01


@pytest.mark.parametrize(("replicas", "stands_ready"), [(0, True), (1, False)])
def test_whoever_waits_for_replicas_does_not_stand_ready(replicas: int, stands_ready: bool) -> None:
    """The word of a release says nothing of them."""
    commands = Commands(quorum=False, keep=3600.0, channel="channel", replicas=replicas)
    request = Acquire("job", "me", 60.0, queue=True, tries=7)
    [asked] = commands.exchange([request], True).commands
    assert asked.endswith(b"\r\n7\r\n") == stands_ready


def test_a_lock_that_has_expired_is_handed_to_who_stands_ready(
    server: RedisServer, prompt: list[Process]
) -> None:
    _, b, c, *_ = prompt
    b.waits("b")
    server.command("DEL", "job")  # it has expired
    c.waits("c")
    assert handed_over(b)[0] == "b"
    [answer] = c.ask(Acquire("job", "c", 60.0, queue=True))
    assert isinstance(answer, Held)
    assert answer.remaining > 50
