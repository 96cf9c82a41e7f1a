"""How threads hear the wake-ups of a single server, and what becomes of those that are lost."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import count
from types import FrameType

import pytest

from holdfast import Client, Lease, LockError
from holdfast.core.messages import Acquire, Failed, Inspect, Release
from holdfast.drivers.common import clock
from holdfast.engines.redis import ear as ears
from holdfast.engines.redis.blocking import RedisStore
from holdfast.engines.redis.ear import HEARS, THREAD, Ear, Line
from holdfast.engines.redis.phrases import command
from holdfast.lab.servers.redis import RedisServer
from tests.children import in_child
from tests.engines.redis.party import HANGS_AFTER, Bare
from tests.engines.redis.strikes import Strike
from tests.patience import wait_for

OTHER = "host/1/program/other"


@pytest.fixture
def client(server: RedisServer) -> Iterator[Client]:
    with Client(server.url, prefix="", ttl=60) as made:
        yield made


@pytest.fixture
def other(server: RedisServer) -> Iterator[Bare]:
    """Holds the lock `job` for so long that nobody gets it by waiting for its end."""
    connection = Bare(server, quorum=False)
    connection.ask(Acquire("job", OTHER, 600.0))
    yield connection
    connection.close()


def begin(client: Client, name: str = "job") -> "Future[Lease | None]":
    """Wait for a lock in another thread."""
    outcome: Future[Lease | None] = Future()

    def run() -> None:
        try:
            outcome.set_result(client.lock(name).acquire(timeout=HANGS_AFTER))
        except LockError as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name="waiter", daemon=True).start()
    return outcome


def wait_for_waiters(client: Client, count: int, name: str = "job") -> None:
    wait_for(lambda: (info := client.inspect(name)) and info.waiters == count)


def take_turns(waiting: "list[Future[Lease | None]]") -> None:
    """Each gets the lock, and gives it back."""
    left = list(waiting)
    while left:
        wait_for(lambda: any(each.done() for each in left))
        [done] = [each for each in left if each.done()]
        lease = done.result()
        assert lease
        lease.release()
        left.remove(done)


def store_of(client: Client) -> RedisStore:
    store = client._driver._store
    assert isinstance(store, RedisStore)
    return store


def threads_of_ours() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("holdfast-")]


def test_a_wake_up_that_was_lost_with_the_connection_is_made_up_for(
    client: Client, other: Bare
) -> None:
    """Those who wait are cut off, and before they are back, the lock is given back to nobody."""
    waiting = [begin(client) for _ in range(3)]
    wait_for_waiters(client, 3)
    [release] = other.speech.phrase((Release("job", OTHER),)).commands
    other._socket.sendall(command(b"CLIENT", b"KILL", b"TYPE", b"pubsub") + release)
    assert [other.reply(), other.reply()] == [1, 1]
    take_turns(waiting)


def test_one_who_is_yet_to_be_answered_counts_as_one_who_waits(
    server: RedisServer, client: Client, other: Bare
) -> None:
    """The connection may be lost, and be back, between its answer and its wait."""
    client.inspect("job")  # connects
    store = store_of(client)
    server.freeze()
    asking = threading.Thread(
        target=store.ask, args=((Acquire("job", "me", 60.0, queue=True),), clock() + HANGS_AFTER)
    )
    asking.start()
    wait_for(lambda: "me" in store._fleet.waiting)
    server.thaw()
    asking.join()
    assert "me" in store._fleet.waiting
    store.ask((Release("job", "me"),), clock() + HANGS_AFTER)
    assert store._fleet.waiting == set()


def test_a_server_that_takes_no_subscription_is_asked_again(
    server: RedisServer, client: Client, other: Bare
) -> None:
    server.command("ACL", "LOG", "RESET")
    server.command("ACL", "SETUSER", "default", "-subscribe")
    try:
        waiting = begin(client)
        wait_for(lambda: server.command("ACL", "LOG"))
    finally:
        server.command("ACL", "SETUSER", "default", "+subscribe")
    wait_for_waiters(client, 1)
    other.ask(Release("job", OTHER))
    lease = waiting.result(HANGS_AFTER)
    assert lease
    lease.release()


def test_closing_reaches_all_who_wait_and_leaves_nothing(server: RedisServer, other: Bare) -> None:
    with Client(server.url, prefix="") as watcher:
        before, connected = threads_of_ours(), connections(server)
        client = Client(server.url, prefix="", ttl=60)
        waiting = [begin(client) for _ in range(3)]
        wait_for_waiters(watcher, 3)
        client.close()
        for each in waiting:
            with pytest.raises(LockError, match="closed"):
                each.result(HANGS_AFTER)
        assert threads_of_ours() == before
        wait_for(lambda: connections(server) <= connected + 1)  # the watcher's
        wait_for_waiters(watcher, 0)


def connections(server: RedisServer) -> int:
    return int(server.info("clients")["connected_clients"])


def test_a_child_may_be_forked_after_a_client_was_closed(server: RedisServer, other: Bare) -> None:
    client = Client(server.url, prefix="", ttl=60)
    waiting = begin(client)
    wait_for_waiters(client, 1)
    client.close()
    with pytest.raises(LockError, match="closed"):
        waiting.result(HANGS_AFTER)
    in_child(lambda: client._driver._store.forget())


def test_a_forked_child_hears_for_itself(client: Client, other: Bare) -> None:
    other.ask(Acquire("another", OTHER, 600.0))
    waiting = begin(client)
    wait_for_waiters(client, 1)
    [ear] = store_of(client)._ears
    assert ear._line
    parents = os.readlink(f"/proc/self/fd/{ear._line.sock.fileno()}")

    def child() -> None:
        lease = client.lock("another").acquire(timeout=HANGS_AFTER)
        assert lease
        lease.release()
        links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
        assert parents not in [os.readlink(link) for link in links if os.path.lexists(link)]
        client.close()

    def give_back() -> None:
        wait_for_waiters(client, 1, "another")
        other.ask(Release("another", OTHER))

    giving = threading.Thread(target=give_back)
    giving.start()
    in_child(child)
    giving.join()
    assert not waiting.done()
    other.ask(Release("job", OTHER))
    lease = waiting.result(HANGS_AFTER)
    assert lease
    lease.release()


NEVER = 1000.0


def turn_of(ear: Ear) -> dict[str, str]:
    """Who hears; empty if anybody may."""
    line = ear._line
    return {HEARS: "nobody"} if line is None else line.turn


class Hearing:
    """A client's ear, by itself: `me` and `you` wait, and `heard` is whom it has rung for."""

    def __init__(self, server: RedisServer, client: Client) -> None:
        self.server, self.store = server, store_of(client)
        self.fleet = self.store._fleet
        self.heard: list[str] = []
        self.fleet.around = self.fleet.around._replace(
            notify=self.heard.append, hand_over=lambda holder, word: self.heard.append(holder)
        )
        self.fleet.waiting |= {"me", "you"}
        self.store._listen(clock() + HANGS_AFTER)
        [self.ear] = self.store._ears
        wait_for(lambda: not self.turn)
        self.heard.clear()

    @property
    def turn(self) -> dict[str, str]:
        return turn_of(self.ear)

    @property
    def midway(self) -> bool:
        line = self.ear._line
        return line is None or line.midway

    def say(self, message: str) -> None:
        assert self.server.command("PUBLISH", self.fleet.channel, message) == 1

    def pump(self, waiter_id: str) -> threading.Thread:
        """Somebody waits until it is rung for."""
        args = (waiter_id, lambda: waiter_id not in self.heard, clock() + HANGS_AFTER)
        waiter = threading.Thread(target=self.ear.pump, args=args, daemon=True)
        waiter.start()
        return waiter

    def leaves_you_to_the_thread(self) -> None:
        """One who heard is rung for, and the other still waits."""
        first = self.pump("me")
        wait_for(lambda: self.turn == {HEARS: "me"})
        self.pump("you").join(HANGS_AFTER)
        self.say("me")
        first.join(HANGS_AFTER)
        wait_for(lambda: self.turn == {HEARS: THREAD})


@pytest.fixture
def hearing(server: RedisServer, client: Client, monkeypatch: pytest.MonkeyPatch) -> Hearing:
    """Whose thread does nothing unless it is called."""
    monkeypatch.setattr(ears, "REST", NEVER)
    client.inspect("job")  # connects
    return Hearing(server, client)


def test_one_who_waits_alone_hears_for_itself(hearing: Hearing) -> None:
    waiter = hearing.pump("me")
    wait_for(lambda: hearing.turn == {HEARS: "me"})
    hearing.say("me")
    waiter.join(HANGS_AFTER)
    assert hearing.heard == ["me"]
    assert not hearing.turn
    assert hearing.ear._calls.empty(), "the thread is left in peace"


def test_whoever_hears_rings_for_the_others_too(
    hearing: Hearing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ears, "LIES", NEVER)  # as long as others wait, the thread looks
    first = hearing.pump("me")
    wait_for(lambda: hearing.turn == {HEARS: "me"})
    second = hearing.pump("you")
    second.join(HANGS_AFTER)  # it need not hear, and would wait for its bell now
    hearing.say("you")
    wait_for(lambda: hearing.heard == ["you"])
    assert hearing.turn == {HEARS: "me"}
    hearing.say("me")
    first.join(HANGS_AFTER)
    assert not hearing.turn
    assert hearing.ear._calls.empty(), "nobody waits any more"


def test_whoever_hears_no_longer_calls_the_thread_for_those_who_still_wait(
    hearing: Hearing,
) -> None:
    hearing.leaves_you_to_the_thread()
    hearing.say("you")
    wait_for(lambda: hearing.heard == ["me", "you"])
    wait_for(lambda: not hearing.turn)  # it rests again


def test_one_who_comes_as_the_thread_goes_to_rest_is_heard_for(
    hearing: Hearing, monkeypatch: pytest.MonkeyPatch
) -> None:
    hearing.leaves_you_to_the_thread()
    rest = Ear._rest

    def rest_a_little_late(ear: Ear, line: Line) -> None:
        monkeypatch.setattr(Ear, "_rest", rest)
        ear.pump("you", lambda: True, clock() + HANGS_AFTER)
        rest(ear, line)

    monkeypatch.setattr(Ear, "_rest", rest_a_little_late)
    hearing.say("you")
    wait_for(lambda: Ear._rest is rest)
    hearing.say("you")
    wait_for(lambda: hearing.heard == ["me", "you", "you"])


def test_what_is_to_be_heeded_later_is_heeded_by_one_who_hears(hearing: Hearing) -> None:
    waiter = hearing.pump("me")
    wait_for(lambda: hearing.turn == {HEARS: "me"})
    hearing.say("me 20")
    waiter.join(HANGS_AFTER)
    assert hearing.heard == ["me"]


def test_one_who_is_kept_from_hearing_is_not_waited_for(
    hearing: Hearing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a signal handler, for instance, in which its thread may wait for something itself."""
    monkeypatch.setattr(ears, "REDIAL_AFTER", 0.01)
    goes_on = threading.Event()
    looks: list[Callable[[], bool]] = [lambda: True, lambda: not goes_on.wait(HANGS_AFTER)]
    silent = iter(looks)
    args = ("me", lambda: next(silent)(), clock() + HANGS_AFTER)
    kept = threading.Thread(target=hearing.ear.pump, args=args)
    kept.start()
    wait_for(lambda: hearing.turn == {HEARS: "me"})
    line = hearing.ear._line
    assert line
    hearing.say("nobody")
    wait_for(lambda: "nobody" in hearing.heard)  # and does not hear any more
    hearing.pump("you").join(HANGS_AFTER)
    hearing.say("you")
    wait_for(lambda: "you" in hearing.heard)
    assert line.sock.fileno() > 0, "it may still wait for that"
    goes_on.set()
    kept.join(HANGS_AFTER)
    assert line.sock.fileno() < 0
    wait_for(lambda: not hearing.turn)


def test_one_who_hears_now_and_then_is_left_the_turn(
    hearing: Hearing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever somebody looks, there is something to be heard; but it is not the same."""
    monkeypatch.setattr(Line, "has_something", lambda line: True)
    monkeypatch.setattr(ears, "LIES", 1.0)
    first = hearing.pump("me")
    wait_for(lambda: hearing.turn == {HEARS: "me"})
    hearing.pump("you").join(HANGS_AFTER)
    began = clock()
    while clock() < began + 2.5 * ears.LIES:
        hearing.say("nobody")
    hearing.say("me")
    first.join(HANGS_AFTER)
    assert set(hearing.heard) == {"nobody", "me"}, "nobody was rung for because of a new line"


@pytest.mark.parametrize("error", [EOFError("no more"), OSError(5, "no more"), ValueError("no")])
def test_what_a_signal_handler_raises_gets_to_the_caller(
    hearing: Hearing, error: Exception
) -> None:
    def strike() -> bool:
        raise error

    with pytest.raises(type(error)):
        hearing.ear.pump("me", strike, clock() + HANGS_AFTER)
    assert hearing.turn != {HEARS: "me"}


def test_a_confirmation_that_comes_bit_by_bit(
    server: RedisServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ears, "take_in", lambda sock, reader: reader.feed(sock.recv(1)))
    client.inspect("job")  # connects
    Hearing(server, client)


def test_whoever_is_rung_for_is_not_counted_as_waiting_after_that(hearing: Hearing) -> None:
    """It may be back at once."""
    counted: list[bool] = []
    ear, around = hearing.ear, hearing.fleet.around

    def notify(holder: str) -> None:
        counted.append(holder in ear._others)
        around.notify(holder)

    hearing.fleet.around = around._replace(notify=notify)
    for message in ("me", "me 1"):
        hearing.heard.clear()
        waiter = hearing.pump("me")
        wait_for(lambda: hearing.turn == {HEARS: "me"})
        hearing.say(message)
        waiter.join(HANGS_AFTER)
    assert counted == [False, False]


@pytest.mark.parametrize("request_", [Inspect("job"), Acquire("job", "me", 60.0)])
def test_a_signal_handler_may_close_while_its_own_thread_asks(
    server: RedisServer, client: Client, request_: Inspect | Acquire
) -> None:
    client.inspect("job")  # connects
    store, before = store_of(client), threads_of_ours()
    server.freeze()

    def strike() -> None:
        wait_for(lambda: not store._free)
        os.kill(os.getpid(), signal.SIGUSR1)

    with struck_by(store.close):
        striking = threading.Thread(target=strike)
        striking.start()
        answers = list(store.ask((request_,), clock() + HANGS_AFTER))
        striking.join()
    server.thaw()
    answers += store.ask((Acquire("job", "you", 60.0, queue=True),), clock() + HANGS_AFTER)
    assert [type(each) for each in answers] == [Failed, Failed]
    assert threads_of_ours() == before


@contextmanager
def struck_by(act: Callable[[], None]) -> Iterator[list[int]]:
    """A signal has this done; gives whenever it was."""
    done: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        act()
        done.append(number)

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        yield done
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_one_who_waited_long_enough_gives_the_turn_back(hearing: Hearing) -> None:
    hearing.ear.pump("me", lambda: True, clock() + 0.01)
    assert not hearing.turn
    assert not hearing.ear._others


def test_a_connection_that_is_lost_while_somebody_waits_is_made_anew(
    server: RedisServer, client: Client, other: Bare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ears, "REST", NEVER)
    waiting = begin(client)
    wait_for_waiters(client, 1)
    [ear] = store_of(client)._ears
    wait_for(lambda: turn_of(ear).get(HEARS) in store_of(client)._fleet.waiting)
    [release] = other.speech.phrase((Release("job", OTHER),)).commands
    other._socket.sendall(command(b"CLIENT", b"KILL", b"TYPE", b"pubsub") + release)
    assert [other.reply(), other.reply()] == [1, 1]
    take_turns([waiting])


def test_a_connection_that_is_lost_while_nobody_waits_is_noticed(
    server: RedisServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.inspect("job")  # connects
    monkeypatch.setattr(ears, "REST", NEVER)
    hearing = Hearing(server, client)
    rest, rested = Ear._rest, threading.Event()

    def rest_a_little(ear: Ear, line: Line) -> None:
        rest(ear, line)
        rested.set()

    monkeypatch.setattr(Ear, "_rest", rest_a_little)
    monkeypatch.setattr(ears, "REST", 0.01)
    hearing.ear._calls.put(None)
    hearing.say("nobody")  # after which the thread rests again, and nobody calls it
    assert rested.wait(HANGS_AFTER)
    assert server.command("CLIENT", "KILL", "TYPE", "pubsub") == 1
    wait_for(lambda: server.command("PUBSUB", "NUMSUB", hearing.fleet.channel)[1] == 1)  # type: ignore[index]


def test_closing_reaches_one_who_hears_for_itself(server: RedisServer, other: Bare) -> None:
    before = threads_of_ours()
    client = Client(server.url, prefix="", ttl=60)
    waiting = begin(client)
    wait_for_waiters(client, 1)
    [ear] = store_of(client)._ears
    wait_for(lambda: turn_of(ear).get(HEARS) in store_of(client)._fleet.waiting)
    client.close()
    with pytest.raises(LockError, match="closed"):
        waiting.result(HANGS_AFTER)
    assert threads_of_ours() == before
    wait_for(lambda: ear._line is None)


def test_a_signal_handler_may_close_while_its_own_thread_hears(
    server: RedisServer, other: Bare, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread must not wait for the turn, which the handler keeps it from."""
    monkeypatch.setattr(ears, "CONNECT_TIMEOUT", NEVER)
    client = Client(server.url, prefix="", ttl=60)

    def strike() -> None:
        wait_for(lambda: store_of(client)._ears)
        [ear] = store_of(client)._ears
        wait_for(lambda: turn_of(ear).get(HEARS) in store_of(client)._fleet.waiting)
        os.kill(os.getpid(), signal.SIGUSR1)

    with struck_by(client.close) as closed:
        striking = threading.Thread(target=strike)
        striking.start()
        with pytest.raises(LockError, match="closed"):
            client.lock("job").acquire(timeout=HANGS_AFTER)
        striking.join()
    assert closed == [signal.SIGUSR1]


@pytest.mark.parametrize("message", ["you", "you 1", "you 7 0"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
def test_whatever_strikes_one_who_hears_the_others_are_rung_for(
    server: RedisServer,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
    message: str,
) -> None:
    """At any line; and it gets to whoever called, also if a connection might raise it, too."""
    monkeypatch.setattr(ears, "REST", 2.0)
    monkeypatch.setattr(ears, "REDIAL_AFTER", 0.01)
    client.inspect("job")  # connects
    hearing = Hearing(server, client)
    for line in count():
        hearing.say("nobody")  # after which the thread rests
        wait_for(lambda: not hearing.turn)
        hearing.fleet.waiting |= {"me", "you"}
        hearing.say(message)
        hearing.say("me")
        strike = Strike(line, ("redis/ear.py", "redis/nodes.py", "redis/link.py"), error)
        try:
            with strike:
                hearing.ear.pump("me", lambda: "me" not in hearing.heard, clock() + HANGS_AFTER)
        except error:
            assert strike.struck
        else:
            assert not strike.struck, "what struck was swallowed"
        hearing.fleet.waiting.discard("me")  # it lets go of its place in the queue
        second = hearing.pump("you")
        wait_for(lambda: "you" in hearing.heard)
        second.join(HANGS_AFTER)
        hearing.fleet.waiting.discard("you")  # it may have come to wait after it was rung for
        wait_for(lambda: hearing.turn != {HEARS: "me"})
        wait_for(lambda: hearing.ear.ready.is_set() and not hearing.midway)
        hearing.heard.clear()
        if not strike.struck:
            break
    assert line > 10
