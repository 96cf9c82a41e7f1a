"""What a user may rely on: few connections, hand-offs without channel rights or RESP3, refusals
that are told at once, and interruptions that leave the client usable."""

import asyncio
import logging
import select
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import pytest

import holdfast
from holdfast.core.messages import Acquire, Failed, Granted, Held, Release
from holdfast.core.ports import Notify, StoreHost
from holdfast.drivers.common import clock, log
from holdfast.engines import open_engine
from holdfast.engines.redis import threads
from holdfast.engines.redis.sockets import Poller, Wakeup
from holdfast.events import Event, NodeFailed
from holdfast.lab.servers.redis import RedisServer
from tests.contract.interrupting import Interruption
from tests.engines.redis.conftest import Invite
from tests.engines.redis.party import Mode
from tests.equipment.servers.masters import RedisMasters
from tests.equipment.servers.secured import SecuredRedis
from tests.patience import wait_for

LONG = 60.0
"""A ttl that no test outlasts: what is handed over sooner was not waited for."""


def connections(server: RedisServer) -> int:
    """How many others than this look's own there are."""
    return str(server.command("CLIENT", "LIST")).count("id=") - 1


def test_one_connection_for_all_that_wait_and_ask(server: RedisServer, invite: Invite) -> None:
    ann, ben = invite(server.url, ttl=LONG), invite(server.url, ttl=LONG)
    held = ann.takes("held")
    others = connections(server)
    waiting = [ben.begin(ben.client.lock("held").acquire) for _ in range(20)]
    asking = [ben.begin(ben.client.lock(f"free {n}").acquire) for n in range(20)]
    leases = [each.result(10) for each in asking]
    wait_for(lambda: ann(ann.client.inspect, "held").waiters == 20)
    assert connections(server) == others + 1
    ann(held.release)
    for each in as_completed(waiting, timeout=30):
        ben(each.result().release)
    for lease in leases:
        ben(lease.release)


def test_one_connection_to_each_node_of_a_quorum(three: RedisMasters, invite: Invite) -> None:
    before = [connections(server) for server in three.servers]
    ann = invite(f"{three.url}?restart_guard=off", ttl=LONG)
    asking = [ann.begin(ann.client.lock(f"job {n}").acquire) for n in range(20)]
    for lease in [each.result(10) for each in asking]:
        ann(lease.release)
    now = [connections(server) for server in three.servers]
    assert [after - was for after, was in zip(now, before, strict=True)] == [1, 1, 1]


@pytest.fixture(params=["no channels", "no RESP3"])
def mute(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server that cannot wake its waiters."""
    if request.param == "no RESP3":
        with RedisServer(options=("--rename-command", "HELLO", "")) as server:
            yield server.url
    else:
        users = {"ann": ("on", ">secret", "~*", "resetchannels", "+@all")}
        with SecuredRedis(users=users) as server:
            yield server.url_for("ann", "secret")


@pytest.mark.slow
def test_waiters_poll_where_they_cannot_be_woken(
    mute: str, invite: Invite, caplog: pytest.LogCaptureFixture
) -> None:
    ann, ben = invite(mute, ttl=LONG), invite(mute, ttl=LONG)

    def told() -> list[str]:
        log.wait(30)
        texts = [record.getMessage() for record in caplog.records]
        return [text for text in texts if "cannot wake" in text]

    with caplog.at_level(logging.WARNING, "holdfast"):
        for _ in range(3):
            lease = ann.takes()
            waiting = ben.begin(ben.client.lock("job", retry=0.05).acquire, timeout=LONG)
            wait_for(told)
            ann(lease.release)
            ben(waiting.result(20).release)
    assert len(told()) == 1, told()


def places_in(servers: Sequence[RedisServer]) -> int:
    """How many waiters the queues of these servers have, all together."""
    return sum(int(str(each.command("ZCARD", "{holdfast:job}:queue"))) for each in servers)


@pytest.mark.slow
@pytest.mark.parametrize("lacking", ["resetchannels", "-publish"])
@pytest.mark.parametrize("scheme", ["redis", "redlock"])
def test_a_holder_that_may_not_publish_blocks_no_waiter_that_listens(
    three: RedisMasters, invite: Invite, scheme: str, lacking: str
) -> None:
    """Its release does not fail, and loses no place in the queue: waiters ask by themselves."""
    servers = three.servers[: 1 if scheme == "redis" else None]
    for server in servers:
        server.command("ACL", "SETUSER", "mute", "reset", "on", ">x", "~*", "&*", "+@all", lacking)
    places = ",".join(server.address for server in servers)
    option = "?restart_guard=off" if scheme == "redlock" else ""
    mute = invite(f"{scheme}://mute:x@{places}{option}")
    ben, cleo = (invite(f"{scheme}://{places}{option}", ttl=LONG) for _ in range(2))
    held = mute.takes(ttl=3)
    waiting = []
    for party in (ben, cleo):
        waiting.append(party.begin(party.client.lock("job").acquire, timeout=LONG))
        wait_for(lambda: places_in(servers) >= len(waiting) * (len(servers) // 2 + 1))
    mute(held.release)
    again = mute.insists(mute.client.lock("job", ttl=3).acquire, False)
    if again:  # those who wait have not asked again yet
        mute(again.release)
    for each in as_completed(waiting, timeout=30):
        (ben if each is waiting[0] else cleo)(each.result().release)
    fences = [each.result().fence for each in waiting]
    assert held.fence < min(fences)
    assert scheme == "redlock" or fences == sorted(fences), "a place in the queue was lost"


def ask(url: str, mode: Mode, *requests: Any) -> Any:
    """What a store answers, by its port."""
    host = StoreHost(clock, lambda holder: None, lambda event: None)
    engine = open_engine(urlsplit(url), {})
    if mode == "sync":
        store = engine.connect(host)
        try:
            return store.ask(requests, clock() + 5)
        finally:
            store.close()

    async def main() -> Any:
        store = engine.connect_async(host)
        try:
            return await store.ask(requests, clock() + 5)
        finally:
            await store.close()

    return asyncio.run(main())


def test_a_key_of_another_kind_is_told_as_such(server: RedisServer, invite: Invite) -> None:
    server.command("RPUSH", "holdfast:job", "not a lock")
    ann = invite(server.url)
    with pytest.raises(holdfast.EngineUnavailable, match="WRONGTYPE"):
        ann.takes(timeout=600)


def test_a_server_that_is_down_may_come_back(mode: Mode) -> None:
    [answer] = ask("redis://127.0.0.1:1", mode, Acquire("holdfast:job", "me", LONG))
    assert isinstance(answer, Failed)
    assert answer.heals_in is None


def test_where_no_thread_can_be_had_there_is_no_connection(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault: `RuntimeError` came out of the request."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    [answer] = ask(server.url, "sync", Acquire("holdfast:job", "me", LONG))
    assert isinstance(answer, Failed)
    assert "can't start new thread" in str(answer)


def test_a_loop_that_was_held_up_reads_an_answer_before_it_declares_a_timeout(
    server: RedisServer,
) -> None:
    async def scenario() -> None:
        host = StoreHost(clock, print, print)
        store: Any = open_engine(urlsplit(server.url), {}).connect_async(host)
        await store.ask((Acquire("holdfast:other", "me", LONG),), clock() + 10)
        server.freeze()
        until = clock() + 0.5
        asking = asyncio.ensure_future(store.ask((Acquire("holdfast:job", "me", LONG),), until))
        await asyncio.sleep(0)  # now it is sent
        [protocol] = store.protocols.values()
        answered = protocol.transport.get_extra_info("socket").fileno()

        def hold_up() -> None:
            server.thaw()
            select.select([answered], (), (), 10)

        # The loop calls it and the timeout in one go, without a look at its sockets in between.
        asyncio.get_running_loop().call_later(0, hold_up)
        while clock() < until + 0.01:
            pass
        [answer] = await asking
        assert isinstance(answer, Granted), answer
        await store.close()

    asyncio.run(scenario())


def test_an_interruption_of_a_wake_up_ends_no_later_timeout(server: RedisServer) -> None:
    """A Ctrl-C may come out of whatever the loop calls; the loop may run again after it."""

    woken: list[str] = []

    def interrupt(holder: str) -> None:
        woken.append(holder)
        if len(woken) == 1:
            raise KeyboardInterrupt

    def acquire(store: Any, *, queue: bool) -> Any:
        return store.ask((Acquire("job", "me", LONG, queue),), clock() + (5 if queue else 0.1))

    async def join_queue() -> Any:
        host = StoreHost(clock, interrupt, lambda event: None)
        store: Any = open_engine(urlsplit(server.url), {}).connect_async(host)
        [answer] = await acquire(store, queue=True)
        assert isinstance(answer, Held)
        channels: Any = server.command("PUBSUB", "CHANNELS")
        assert any(server.command("PUBLISH", channel, "me 1") for channel in channels)
        return store

    server.command("SET", "job", "another holder", "PX", 60000)
    with asyncio.Runner() as runner:
        store = runner.run(join_queue())
        with pytest.raises(KeyboardInterrupt):
            runner.run(asyncio.sleep(20))
        server.freeze()
        try:
            [answer] = runner.run(asyncio.wait_for(acquire(store, queue=False), 20))
        finally:
            server.thaw()
        assert isinstance(answer, Failed)
        runner.run(store.close())


def test_the_first_try_waits_for_connections(three: RedisMasters, invite: Invite) -> None:
    """Three of four nodes are needed and there; the fourth accepts, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        hosts = ",".join(server.address for server in three.servers)
        url = f"redlock://{hosts},127.0.0.1:{mute.getsockname()[1]}?restart_guard=off"
        for _ in range(10):
            ann = invite(url, ttl=LONG)
            lease = ann.tries()
            assert lease
            ann(lease.release)


def store_of(server: RedisServer, notify: Notify = lambda holder: None) -> Any:
    """For threads."""
    host = StoreHost(clock, notify, lambda event: None)
    return open_engine(urlsplit(server.url), {}).connect(host)


# A Ctrl-C between the making of a socket and its first owner leaves it to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("connection", ["open", "new", "lost"])
def test_an_interruption_at_any_line_leaves_the_client_usable(
    server: RedisServer, connection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It closes the connection, or nothing; what was pending has an unknown outcome."""
    monkeypatch.setattr("holdfast.engines.redis.threads.IDLE", -1.0)  # always idle for long enough
    store = store_of(server)
    files = ("redis/threads.py", "redis/nodes.py", "redis/connection.py", "redis/sockets.py")
    request = Acquire("job", "me", LONG)
    store.ask((request,), clock() + 5)
    for line in count():
        if connection == "new":
            store.close()
            store = store_of(server)
        if connection == "lost":
            server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            wait_for(lambda: connections(server) == 0)
        interruption = Interruption(line, files)
        try:
            with interruption:
                store.ask((request,), clock() + 5)
        except KeyboardInterrupt:
            pass
        for step in (request, Release("job", "me")):
            [answer] = store.ask((step,), clock() + 5)
            assert not isinstance(answer, Failed), (line, answer)
        if not interruption.happened:
            break
    assert line > 30
    store.close()
    wait_for(lambda: connections(server) == 0)


def test_an_interruption_is_no_failure_of_the_nodes(three: RedisMasters) -> None:
    """The fault: each was reported as one that had not answered in time."""
    events: list[Event] = []
    host = StoreHost(clock, lambda holder: None, events.append)
    store = open_engine(urlsplit(three.url), {"restart_guard": "off"}).connect(host)
    store.ask((Acquire("job", "me", LONG),), clock() + 5)
    waiting = Interruption(0, ("redis/sockets.py",), functions=("wait",))
    with pytest.raises(KeyboardInterrupt), waiting:
        store.ask((Acquire("other", "me", LONG),), clock() + 5)
    store.close()
    assert not [each for each in events if isinstance(each, NodeFailed)]


@pytest.mark.full
def test_a_signal_handler_may_ask_at_any_line(server: RedisServer) -> None:
    """It is answered, or refused at once; it does not hang, and it harms nobody."""
    with holdfast.Client(server.url, ttl=LONG) as client:
        store = store_of(server)
        store.ask((Acquire("warm", "me", LONG),), clock() + 5)
        handled: list[Any] = []

        def handle() -> None:
            handled.append(store.ask((Acquire("other", "me", LONG),), clock() + 5))

        for line in count():
            interruption = Call(line, ("redis/threads.py", "redis/nodes.py"), handle)
            with interruption:
                [answer] = store.ask((Acquire("holdfast:job", "me", LONG),), clock() + 5)
            assert not isinstance(answer, Failed), (line, answer)
            if not interruption.happened:
                break
        assert len(handled) == line > 30
        store.close()
        assert client.lock("job").acquire(blocking=False) is None


class Call(Interruption):
    """Calls something at the nth line, as a signal handler is called."""

    def __init__(
        self, line: int, files: tuple[str, ...], action: Any, functions: tuple[str, ...] = ()
    ) -> None:
        super().__init__(line, files, functions=functions)
        self._action = action

    def __call__(self, frame: Any, event: str, arg: object) -> Any:
        try:
            return super().__call__(frame, event, arg)
        except KeyboardInterrupt:
            tracing = sys.gettrace()
            sys.settrace(None)
            self._action()
            sys.settrace(tracing)
            return self


def test_a_leader_that_is_held_up_is_replaced(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal handler may keep the thread that reads for all, just before it waits for replies."""
    monkeypatch.setattr("holdfast.engines.redis.threads.TAKEOVER", 0.01)
    store = store_of(server)
    store.ask((Acquire("warm", "me", LONG),), clock() + 5)
    held_up, go_on = threading.Event(), threading.Event()

    def keep() -> None:
        held_up.set()
        go_on.wait(60)

    def lead() -> None:
        with Call(0, ("redis/sockets.py",), keep, ("wait",)):
            store.ask((Acquire("one", "me", LONG),), clock() + 60)

    leader = threading.Thread(target=lead)
    leader.start()
    assert held_up.wait(10)
    answers: list[Any] = []
    follower = threading.Thread(
        target=lambda: answers.extend(store.ask((Acquire("two", "me", LONG),), clock() + 60))
    )
    follower.start()
    try:
        wait_for(lambda: answers)  # and not only when its own time is over
        go_on.set()
        wait_for(lambda: not leader.is_alive())  # the follower has read its answer
    finally:
        go_on.set()
        leader.join(70)
        follower.join(70)
    assert not isinstance(answers[0], Failed)
    store.close()


def test_no_thread_becomes_a_follower_unseen_by_a_leader_that_leaves(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(server)
    store.ask((Acquire("warm", "me", LONG),), clock() + 5)
    prepare, looks, leaver = threads.WaitingThread.prepare, list[Any](), threads.WaitingThread()
    leaving = threading.Thread(target=lambda: store._leave(leaver))

    def leave_just_then(waiting: threads.WaitingThread) -> None:
        prepare(waiting)
        leaving.start()
        leaving.join()

    store._leader, store._leading = leaver, leaving.ident
    monkeypatch.setattr(threads.WaitingThread, "prepare", leave_just_then)
    monkeypatch.setattr(store, "_look_at_leader", lambda: looks.append(None))
    [answer] = store.ask((Acquire("job", "me", LONG),), clock() + 5)
    assert not isinstance(answer, Failed)
    assert not looks, "it was promoted, and did not have to look by itself"
    store.close()


def test_a_thread_may_leave_a_closed_client_as_another_begins_to_lead(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that leaves closes the wake-up pipe, and needs no mutex for that. The fault: an
    `AttributeError` came out of the other's request."""
    store = store_of(server)
    left: list[Any] = []
    once = property(lambda _: left.pop() if left else None, lambda _, wakeup: left.append(wakeup))
    monkeypatch.setattr(type(store), "_wakeup", once, raising=False)
    store._wakeup = Wakeup()
    assert isinstance(store._make_poller(), Poller)
    store._wakeup.close()
    store.close()


def test_a_leader_that_is_due_itself_waits_no_longer(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wake-up may name a later instant, and the thread that waits for it may be the leader."""
    woken, waits = list[str](), list[float]()

    def wait(poller: Poller, seconds: float) -> Sequence[tuple[int, int]]:
        waits.append(seconds)
        return []

    store = store_of(server, woken.append)
    store.ask((Acquire("job", "another", LONG),), clock() + 5)
    store.ask((Acquire("job", "me", LONG, queue=True),), clock() + 5)
    store._waiters.published(b"me 0")
    monkeypatch.setattr(Poller, "wait", wait)
    store.pump("me", lambda: not woken, clock() + LONG)
    assert (woken, waits) == (["me"], [])
    store.close()


def test_a_connection_that_was_closed_meanwhile_is_replaced_before_use(
    server: RedisServer, invite: Invite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the only try of a caller would fail on a server that is well."""
    monkeypatch.setattr("holdfast.engines.redis.threads.IDLE", -1.0)  # always idle for long enough
    ann = invite(server.url, ttl=LONG)
    lease = ann.tries()
    assert lease
    ann(lease.release)
    server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    wait_for(lambda: connections(server) == 0)
    assert ann.tries()
