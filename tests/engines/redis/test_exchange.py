"""One exchange of a thread with a single server: a late reply, and a Ctrl-C in the middle."""

import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import IO, Any

import pytest

import holdfast
from holdfast.core.messages import DONE, Acquire, Release
from holdfast.drivers.common import clock
from holdfast.engines.redis import sole
from holdfast.engines.redis.eagerness import Eagerness
from holdfast.engines.redis.link import PROMPT
from holdfast.engines.redis.nodes import AT_WORK
from holdfast.engines.redis.sockets import BROKEN
from holdfast.engines.redis.sole import COURTESY, IDLE, LOOKS
from holdfast.lab.servers.redis import RedisServer
from tests.patience import wait_for

PROGRAM = [sys.executable, "-m", "tests.engines.redis.struck"]
ROUNDS = 300
HANGS_AFTER = 100.0


def test_what_the_server_says_is_understood_after_any_strike(server: RedisServer) -> None:
    command = [*PROGRAM, server.url, str(ROUNDS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_AFTER)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) > 0


@contextmanager
def program(server: RedisServer, what: str) -> Iterator[tuple[IO[str], IO[str]]]:
    """Its ends, once the server is silent."""
    command = [*PROGRAM, server.url, what]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdin
        assert running.stdout
        assert running.stdout.readline() == "ready\n"
        server.freeze()
        running.stdin.write("go\n")
        running.stdin.flush()
        try:
            yield running.stdin, running.stdout
            assert running.wait(HANGS_AFTER) == 0
        finally:
            running.kill()


class Odd:
    """A socket like another one, but for one thing."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


class Struck(Odd):
    """A Ctrl-C strikes as something is read, with a look or by sleeping: just before, or after."""

    def __init__(self, sock: socket.socket, *, looking: bool, has_read: bool) -> None:
        super().__init__(sock)
        self._looking, self._has_read = looking, has_read

    def recv_into(self, buffer: bytearray, size: int = 0, flags: int = 0) -> int:
        if flags and not self._looking:
            raise BlockingIOError
        if self._has_read:
            self._sock.recv_into(buffer)
        raise KeyboardInterrupt


class Far(Odd):
    """Nothing is ever there when one looks, until it is `near`."""

    near, looks = False, 0

    def recv_into(self, buffer: bytearray, size: int = 0, flags: int = 0) -> int:
        self.looks += bool(flags)
        if flags and not self.near:
            raise BlockingIOError
        return self._sock.recv_into(buffer)


def link_of(client: holdfast.Client) -> Any:
    """The only one, and it is connected."""
    with client.lock("first"):
        pass
    store: Any = client._driver._store
    [circuit] = store._all
    [link] = circuit._links
    return link


@pytest.mark.parametrize("looking", [False, True])
@pytest.mark.parametrize("has_read", [False, True])
def test_a_strike_as_something_is_read(server: RedisServer, looking: bool, has_read: bool) -> None:
    """If it was not read, the reply is still to come, and what follows goes out behind it. If it
    was, it is lost, and its connection with it."""
    with holdfast.Client(server.url) as client:
        link = link_of(client)
        link._eagerness = Eagerness()
        store: Any = client._driver._store
        real, link.sock = link.sock, Struck(link.sock, looking=looking, has_read=has_read)
        with pytest.raises(KeyboardInterrupt):
            store.ask((Acquire("job", "me", 30),), clock() + HANGS_AFTER)
        link.sock = real
        assert len(link.owed) == (not has_read)
        [answer] = store.ask((Release("job", "me"),), clock() + HANGS_AFTER)
        assert answer is DONE
        assert (store._all[0]._links == [link]) is not has_read


def test_a_server_that_is_not_quick_is_not_looked_for_each_time(server: RedisServer) -> None:
    with holdfast.Client(server.url) as client:
        link = link_of(client)
        link._eagerness = Eagerness()
        link.sock = sock = Far(link.sock)
        store: Any = client._driver._store

        def looks(exchanges: int) -> int:
            before = sock.looks
            for _ in range(exchanges):
                store.ask((Release("job", "me"),), clock() + HANGS_AFTER)
            return sock.looks - before

        late = [looks(1) for _ in range(136)]
        assert set(late) == {0, LOOKS}
        looked_at = [number for number, count in enumerate(late) if count]
        assert looked_at == [0, 2, 5, 10, 19, 36, 69, 102, 135], "more and more seldom"
        sock.near = True
        assert looks(LOOKS) == 0, "nobody knows yet"
        assert looks(5) == 5, "it is there at the first look"
        sock.near = False
        assert [looks(1) for _ in range(4)] == [LOOKS, 0, LOOKS, 0], "late once is not far"


def test_a_server_that_is_gone_is_noticed_with_a_look(server: RedisServer) -> None:
    with holdfast.Client(server.url) as client:
        link = link_of(client)
        link._eagerness = Eagerness()
        server.kill()
        with pytest.raises(BROKEN):
            link.exchange(b"*1\r\n$4\r\nPING\r\n", select.poll(), PROMPT, look=True)
        server.start()


def test_what_undoes_an_acquire_goes_out_behind_it(server: RedisServer) -> None:
    with program(server, "wait") as (_, stdout):
        assert stdout.readline() == "struck\n"
        server.thaw()
        assert stdout.readline() == "True\n"


@pytest.mark.parametrize(
    ("what", "outcome"), [("alarm", "TimeoutError"), ("storm", "EngineUnavailable")]
)
def test_signals_of_the_program_itself(server: RedisServer, what: str, outcome: str) -> None:
    """Its own error is not taken for the connection's; and no signal moves a deadline."""
    with program(server, what) as (stdin, stdout):
        assert stdout.readline() == f"{outcome}\n"  # while the server is still silent
        server.thaw()
        stdin.write("done\n")
        stdin.flush()


def test_a_reply_that_takes_longer_than_a_moment(server: RedisServer) -> None:
    with holdfast.Client(server.url) as client:
        lock = client.lock("job")
        with lock:
            pass
        store: Any = client._driver._store
        [link] = store._all[0]._links
        leases: list[Any] = []
        server.freeze()
        taking = threading.Thread(target=lambda: leases.append(lock.acquire()))
        taking.start()
        wait_for(lambda: link.owed)  # it does not read any more, but wait until it can
        server.thaw()
        taking.join(HANGS_AFTER)
        [lease] = leases
        assert store._all[0]._links == [link]
        lease.release()


def test_whoever_is_to_queue_is_in_no_hurry(server: RedisServer) -> None:
    with holdfast.Client(server.url) as client:
        link = link_of(client)
        link._eagerness = Eagerness()
        link.sock = sock = Far(link.sock)
        store: Any = client._driver._store
        for queue, looks in ((True, 0), (False, LOOKS)):
            store.ask((Acquire("job", "me", 60.0, queue),), clock() + HANGS_AFTER)
            assert sock.looks == looks


def test_nobody_looks_while_another_thread_is_at_work(server: RedisServer) -> None:
    with holdfast.Client(server.url) as client:
        link = link_of(client)
        link._eagerness = Eagerness()
        link.sock = sock = Far(link.sock)
        store: Any = client._driver._store
        store._all.append(SimpleNamespace(close=lambda: None))
        store.ask((Acquire("job", "me", 60.0),), clock() + HANGS_AFTER)
        assert sock.looks == 0


def test_whoever_has_just_given_it_back_lets_the_next_one_begin(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    naps: list[float] = []
    monkeypatch.setattr(sole, "time", SimpleNamespace(sleep=naps.append))
    with holdfast.Client(server.url) as client:
        link_of(client)
        store: Any = client._driver._store
        [only] = store._all
        now = clock()
        only._clock = lambda: now  # however long all this takes

        def asks(request: Acquire | Release) -> int:
            """How often it rests before that."""
            naps.clear()
            store.ask((request,), clock() + HANGS_AFTER)
            return len(naps)

        again = Acquire("job", "you", 60.0, queue=True)
        assert asks(Acquire("job", "me", 60.0)) == 0
        assert asks(again) == 0, "it has given nothing back"
        asks(Release("job", "you"))
        asks(Release("job", "me"))
        assert asks(again) == 1
        assert naps == [COURTESY]
        asks(Release("job", "you"))
        assert asks(Acquire("another", "you", 60.0, queue=True)) == 0
        asks(Release("job", "you"))
        assert asks(Acquire("job", "you", 60.0)) == 0, "it does not want to wait"
        asks(Release("job", "you"))
        only._used_at -= AT_WORK
        assert asks(again) == 0, "that was long ago"


def test_a_connection_that_was_not_used_for_a_while_is_looked_at_first(
    server: RedisServer,
) -> None:
    with holdfast.Client(server.url) as client:
        link_of(client)
        store: Any = client._driver._store
        [only] = store._all
        lease = client.lock("job").acquire()
        assert lease
        server.restart(keep_data=False)  # the lease is lost, and the connection, too
        only._used_at = clock() - IDLE
        with pytest.raises(holdfast.LockLost):
            lease.release()
