"""What makes a lock and what ends it must reach a node in their order, whichever thread says it."""

import asyncio
import contextlib
import itertools
import select
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from holdfast import AsyncClient, Client, EngineUnavailable, Lease
from holdfast.core.fanout import FanOut, ReleaseRound
from holdfast.core.messages import (
    DONE,
    MISSING,
    NOT_YOURS,
    Acquire,
    Answer,
    Failed,
    Granted,
    Inspect,
    Listing,
    Release,
    Repair,
    ToNode,
)
from holdfast.engines.redis.blocking import RedisStore
from holdfast.engines.redis.circuit import Circuit
from holdfast.engines.redis.link import Link
from holdfast.engines.redis.owed import Owed
from holdfast.lab.servers.redis import RedisServer
from tests.engines.redis.strikes import Strike
from tests.equipment.servers.masters import RedisMasters
from tests.patience import wait_for

pytestmark = pytest.mark.slow


def at_once(count: int, work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def locks_on(server: RedisServer) -> list[str]:
    keys = server.command("KEYS", "holdfast:*")
    assert isinstance(keys, list)
    return [str(key) for key in keys]


def test_a_grant_is_not_undone_by_the_release_of_an_earlier_round() -> None:
    """Two of three nodes are slow, so rounds fail and are tried again, on whatever connection."""
    leases: list[Lease] = []
    with (
        RedisMasters(count=3) as masters,
        Client(masters.url, restart_guard=False, ttl=30) as client,
    ):

        def takes(number: int) -> None:
            lease = client.lock(f"job {len(leases)} {number}").acquire(timeout=20)
            assert lease
            leases.append(lease)

        for round_ in range(4):
            for server in masters.servers[1:]:
                server.freeze()
            thawing = threading.Timer(0.3 + 0.1 * round_, thaw, [masters])
            thawing.start()
            at_once(8, takes)
            thawing.join()
        assert len(leases) == 32
        for lease in leases:
            key = f"holdfast:{lease.name}"
            held = [server.command("GET", key) == lease.holder for server in masters.servers]
            assert sum(held) >= 2, lease


def thaw(masters: RedisMasters) -> None:
    for server in masters.servers:
        server.thaw()


nobody_closes_what_nobody_has = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)
"""A connection that is struck before anybody has it is closed by the garbage collector."""


class TestCircuits:
    """Two connections to one server that is stopped: what is said of one holder goes out on one."""

    @pytest.fixture
    def server(self) -> Iterator[RedisServer]:
        with RedisServer() as server:
            yield server

    @pytest.fixture
    def circuits(self, server: RedisServer) -> Iterator[tuple[Circuit, Circuit]]:
        with Client(server.url) as client:
            fleet = client._driver._store._fleet  # type: ignore[attr-defined]
            pair = Circuit(fleet), Circuit(fleet)
            for circuit in pair:
                fleet.owing.admit(circuit)
                assert isinstance(ask(circuit, Inspect("job")), Listing)
            yield pair
            for circuit in pair:
                circuit.close()

    def test_an_acquire_does_not_go_elsewhere(
        self, server: RedisServer, circuits: tuple[Circuit, Circuit]
    ) -> None:
        one, other = circuits
        server.freeze()
        assert ask(one, Acquire("job", "me", 30)) is None
        assert isinstance(ask(other, Acquire("job", "me", 30)), Failed)
        assert owed(other) == []
        assert ask(other, Acquire("job", "somebody else", 30)) is None
        assert len(owed(other)) == 1

    @pytest.mark.parametrize("first", [Acquire("job", "me", 30), Repair("job", "me", 30, 7)])
    def test_a_release_goes_out_behind(
        self, server: RedisServer, circuits: tuple[Circuit, Circuit], first: ToNode
    ) -> None:
        one, other = circuits
        server.freeze()
        assert ask(one, first) is None
        assert ask(other, Release("job", "me")) is None
        assert owed(other) == []
        assert [type(each) for each in owed(one)] == [type(first), Release]
        server.thaw()
        assert isinstance(ask(one, Inspect("job")), Listing)
        assert server.command("GET", "job") is None

        def is_over() -> bool:
            looks = [isinstance(ask(circuit, Inspect("job")), Listing) for circuit in circuits]
            return all(looks) and not one._owing.circuits

        wait_for(is_over)  # it looks now and then, and what is answered keeps nobody back

    @pytest.mark.parametrize("first", [Acquire("job", "me", 30), Repair("job", "me", 30, 7)])
    def test_also_if_there_was_only_one_connection_till_then(
        self, server: RedisServer, first: ToNode
    ) -> None:
        """As long as there is one alone, nobody notes what is owed on it."""
        with Client(server.url) as client:
            fleet = client._driver._store._fleet  # type: ignore[attr-defined]
            one, other = Circuit(fleet), Circuit(fleet)
            fleet.owing.admit(one)
            assert isinstance(ask(one, Inspect("job")), Listing)
            server.freeze()
            assert ask(one, first) is None
            assert fleet.owing.circuits == {}
            fleet.owing.admit(other)
            assert ask(other, Release("job", "me")) is None
            assert [type(each) for each in owed(one)] == [type(first), Release]

    def test_a_release_goes_out_behind_on_a_connection_that_another_thread_uses(
        self, server: RedisServer
    ) -> None:
        with Client(server.url) as client:
            store = client._driver._store
            assert isinstance(store, RedisStore)
            clock = store._fleet.around.clock
            used, free = Circuit(store._fleet), Circuit(store._fleet)
            for circuit in (used, free):
                store._fleet.owing.admit(circuit)
                assert isinstance(ask(circuit, Inspect("job")), Listing)
            server.freeze()
            assert ask(used, Acquire("job", "me", 30)) is None
            store._free.append(free)
            [answer] = store.ask((Release("job", "me"),), clock() + 0.05)
            assert isinstance(answer, Failed)
            assert owed(free) == []
            assert [type(each) for each in owed(used)] == [Acquire, Release]
            server.thaw()

    def test_an_acquire_waits_for_the_release_before_it(
        self, server: RedisServer, circuits: tuple[Circuit, Circuit]
    ) -> None:
        one, other = circuits
        assert isinstance(ask(one, Acquire("job", "me", 30)), Granted)
        server.freeze()
        assert ask(one, Release("job", "me")) is None
        assert isinstance(ask(other, Acquire("job", "me", 30)), Failed)
        server.thaw()
        assert isinstance(ask(one, Inspect("job")), Listing)
        assert isinstance(ask(other, Acquire("job", "me", 30)), Granted)

    def test_what_could_not_go_out_at_once_goes_out_when_it_can(
        self, circuits: tuple[Circuit, Circuit]
    ) -> None:
        circuit, _ = circuits
        [link] = circuit._by_fd.values()
        link.unsent = b"\r\n"  # which means nothing
        assert isinstance(ask(circuit, Inspect("job")), Listing)
        assert not link.unsent

    def test_a_release_waits_behind_what_is_still_to_be_said_on_another(
        self, server: RedisServer, circuits: tuple[Circuit, Circuit]
    ) -> None:
        """Whose circuit sees to it that it goes out."""
        one, other = circuits
        server.freeze()
        assert ask(one, Acquire("job", "me", 30)) is None
        [link] = one._by_fd.values()
        link.unsent = b"\r\n"  # which means nothing
        assert ask(other, Release("job", "me")) is None
        assert owed(one) == [Acquire("job", "me", 30), Release("job", "me")]
        server.thaw()
        assert isinstance(ask(one, Inspect("job")), Listing)
        assert owed(one) == []
        assert server.command("EXISTS", "job") == 0

    def test_a_strike_while_something_is_noted_hides_nothing_that_is_owed(
        self, server: RedisServer, circuits: tuple[Circuit, Circuit]
    ) -> None:
        """Else its release, on another, could overtake it."""
        one, other = circuits
        for line in itertools.count():
            server.freeze()
            strike = Strike(
                line, ("redis/circuit.py", "redis/owing.py"), functions=("_stop_listening", "add")
            )
            me = f"me {line}"
            with contextlib.suppress(KeyboardInterrupt), strike:
                ask(one, Acquire("job", me, 30))
            if strike.struck:
                ask(one, Release("job", me))
            assert one in one._owing.elsewhere([me], other)
            server.thaw()
            wait_for(lambda: isinstance(ask(one, Inspect("job")), Listing))
            ask(one, Release("job", me))
            if not strike.struck:
                break
        assert line > 3

    def test_what_nobody_waits_for_is_read_later(
        self, server: RedisServer, circuits: tuple[Circuit, Circuit]
    ) -> None:
        """With what follows it, in one go. So the slower half of a quorum costs less."""
        circuit, _ = circuits
        server.freeze()
        assert ask(circuit, Acquire("job", "me", 30)) is None
        server.thaw()
        wait_for(lambda: circuit._poller.poll(0))
        circuit._hear(0, finished())
        assert len(owed(circuit)) == 1
        lost = FanOut((Acquire("job", "me", 30),), (0,), 0.0)
        lost.over = True  # but who has refused need not be told to let go
        circuit._hear(0, lost)
        assert owed(circuit) == []

    def test_what_a_resting_circuit_has_not_read_yet_holds_nobody_up(
        self, server: RedisServer, circuits: tuple[Circuit, Circuit]
    ) -> None:
        """A lease may be renewed on another, and what a node has forgotten must be repaired."""
        one, other = circuits
        server.freeze()
        assert ask(one, Acquire("job", "me", 30)) is None
        server.thaw()
        wait_for(lambda: one._poller.poll(0))
        one._owing.resting.append(one)
        assert ask(other, Repair("job", "me", 30, 7)) is DONE
        assert one._owing.resting == [one]

    def test_what_has_come_is_read_without_asking_who_is_ready(
        self, circuits: tuple[Circuit, Circuit], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        circuit, _ = circuits
        poller, say = circuit._poller, Circuit._say

        def say_and_wait(circuit: Circuit, links: Sequence[Link], owed: Owed) -> None:
            say(circuit, links, owed)
            wait_for(lambda: poller.poll(0))

        monkeypatch.setattr(Circuit, "_say", say_and_wait)
        monkeypatch.setattr(circuit, "_poller", None)
        circuit._used_at = circuit._clock()  # it has just been looked at
        assert isinstance(ask(circuit, Inspect("job")), Listing)

    def test_what_is_to_be_said_again_goes_out_when_it_can(
        self, circuits: tuple[Circuit, Circuit], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        circuit, _ = circuits
        [link] = circuit._by_fd.values()
        monkeypatch.setattr(Link, "hear", lambda link: setattr(link, "unsent", b"more"))
        circuit._attend_to(link, select.POLLIN)
        assert circuit._poller.poll(0) == [(link.fd, select.POLLOUT)]

    def test_also_if_the_word_of_it_was_lost_to_a_ctrl_c(
        self, circuits: tuple[Circuit, Circuit]
    ) -> None:
        circuit, _ = circuits
        [link] = circuit._by_fd.values()
        link.unsent, circuit._busy = b"more", True
        circuit.catch_up()
        assert not link.unsent

    @nobody_closes_what_nobody_has
    @pytest.mark.parametrize("count", [1, 3])
    def test_a_ctrl_c_at_any_line_leaves_a_circuit_of_use(self, count: int) -> None:
        """A new one, which has yet to connect."""
        with (
            RedisMasters(count=count) as masters,
            Client(masters.url, restart_guard=False) as client,
        ):
            fleet = client._driver._store._fleet  # type: ignore[attr-defined]
            for line in itertools.count():
                circuit, strike = Circuit(fleet), Strike(line, ("redis/circuit.py",))
                with contextlib.suppress(KeyboardInterrupt), strike:
                    ask(circuit, Inspect("job"))
                wait_for(lambda: isinstance(ask(circuit, Inspect("job")), Listing))  # noqa: B023
                assert len(circuit._by_fd) == count
                circuit.close()
                if not strike.struck:
                    break
        assert line > 20

    def test_a_ctrl_c_while_a_resting_circuit_is_heard_leaves_it_of_use(
        self, server: RedisServer, circuits: tuple[Circuit, Circuit]
    ) -> None:
        one, other = circuits
        hearing = ("catch_up", "_look", "_hear", "_attend_to", "hear", "take_in")
        for line in itertools.count():
            me = f"me {line}"
            server.freeze()
            assert ask(one, Acquire(me, me, 30)) is None
            server.thaw()
            wait_for(lambda: one._poller.poll(0))
            one._owing.resting[:] = [one]
            strike = Strike(line, ("redis/circuit.py", "redis/link.py"), functions=hearing)
            with contextlib.suppress(KeyboardInterrupt), strike:
                ask(other, Repair(me, me, 30, 7))
            for circuit in circuits:
                assert isinstance(ask(circuit, Inspect("job")), Listing)
                assert ask(circuit, Release("another", "me")) in (MISSING, NOT_YOURS)
            if not strike.struck:
                break
        assert line > 10

    @nobody_closes_what_nobody_has
    def test_a_second_ctrl_c_while_the_first_is_mended_leaves_it_of_use(
        self, circuits: tuple[Circuit, Circuit]
    ) -> None:
        circuit, _ = circuits
        for line in itertools.count():
            [link] = circuit._by_fd.values()
            circuit._busy = link.hearing = True  # it was struck
            strike = Strike(line, ("redis/circuit.py",))
            with contextlib.suppress(KeyboardInterrupt), strike:
                ask(circuit, Inspect("job"))
            assert isinstance(ask(circuit, Inspect("job")), Listing)
            if not strike.struck:
                break
        assert line > 10

    def test_one_who_is_saying_something_is_not_interrupted(
        self, circuits: tuple[Circuit, Circuit]
    ) -> None:
        circuit, _ = circuits
        [link] = circuit._by_fd.values()
        link.saying = True
        assert link.interrupted  # if whoever did is gone

        @contextlib.contextmanager
        def mutex() -> Iterator[None]:
            link.saying = False  # by the time it is free
            yield

        link.mutex = mutex()  # type: ignore[assignment]
        assert not link.interrupted

    def test_what_is_asked_once_more_is_owed_all_the_time(
        self,
        server: RedisServer,
        circuits: tuple[Circuit, Circuit],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Else its release, on another circuit, would not know that it must go out behind."""
        circuit, _ = circuits
        server.command("SCRIPT", "FLUSH")
        found: list[list[ToNode]] = []
        say = Link.say

        def look_and_say(link: Link, words: Owed) -> None:
            found.append(owed(circuit))
            say(link, words)

        monkeypatch.setattr(Link, "say", look_and_say)
        acquire = Acquire("job", "me", 30)
        assert isinstance(ask(circuit, acquire), Granted)
        assert found == [[acquire]]

    def test_what_is_still_to_be_said_goes_out_though_nobody_waits_for_it(
        self, circuits: tuple[Circuit, Circuit]
    ) -> None:
        circuit, _ = circuits
        [link] = circuit._by_fd.values()
        poll = FanOut((Release("job", "me"),), (0,), circuit._clock() + 5)
        said = Owed(circuit._speech.phrase(poll.requests), poll)
        link.owed.append(said)
        link.unsent = said.text
        circuit._poller.modify(link.fd, select.POLLIN | select.POLLOUT)
        circuit._hear(0, finished())
        assert not link.unsent


def finished() -> FanOut:
    poll = ReleaseRound(Release("job", "me"), (0,), 0.0, 1)
    poll.take(0, (DONE,))
    return poll


def ask(circuit: Circuit, request: ToNode) -> Answer | None:
    poll = FanOut(
        (request,), (0,), circuit._clock() + (5 if isinstance(request, Inspect) else 0.05)
    )
    circuit.perform(poll)
    return poll.said(0)


def owed(circuit: Circuit) -> list[ToNode]:
    [link] = circuit._by_fd.values()
    return [each.poll.requests[0] for each in link.owed]


def test_more_tasks_than_a_node_may_owe_answers() -> None:
    async def main(url: str) -> None:
        async with AsyncClient(url) as client:
            # With the scripts there: to have each of them load all would take a busy server long.
            assert not await client.lock("job 0").locked()
            locks = [client.lock(f"job {number}") for number in range(1500)]
            leases = await asyncio.gather(*(lock.acquire(timeout=0) for lock in locks))
            assert all(leases)
            await asyncio.gather(*(lease.release() for lease in leases if lease))

    with RedisServer() as server:
        asyncio.run(main(server.url))
        assert locks_on(server) == []


@pytest.mark.parametrize("asynchronous", [False, True])
def test_scripts_that_may_not_be_loaded(asynchronous: bool) -> None:
    users = {"ann": ("on", ">pw", "~*", "&*", "+@all", "-script")}

    async def tries_async(url: str) -> None:
        async with AsyncClient(url) as client:
            await client.lock("job").acquire(timeout=0)

    def tries(url: str) -> None:
        with Client(url) as client:
            client.lock("job").acquire(timeout=0)

    with RedisServer(users=users) as server:
        url = server.url_for("ann", "pw")
        with pytest.raises(EngineUnavailable, match="NOPERM"):
            asyncio.run(tries_async(url)) if asynchronous else tries(url)


def test_no_name_is_that_of_the_nodes_own_key() -> None:
    with RedisMasters(count=3) as masters, Client(masters.url, max_ttl=1, ttl=1) as client:
        lock = client.lock("max_ttl")
        assert lock.acquire(timeout=20) is not None


class Struck:
    """A socket on which a Ctrl-C strikes whoever sends something, once it is sent."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def send(self, *args: Any) -> int:
        self._sock.send(*args)
        raise KeyboardInterrupt


@pytest.mark.parametrize("node", range(3))
def test_no_node_keeps_the_vote_of_a_request_that_was_struck(
    three: RedisMasters, node: int
) -> None:
    """Its connection is closed, as nobody knows what was said on it; so another one is made."""
    with Client(three.url, restart_guard=False, ttl=60) as client:
        with client.lock("job"):
            pass
        [circuit] = client._driver._store._all  # type: ignore[attr-defined]
        circuit._links[node].sock = Struck(circuit._links[node].sock)
        with pytest.raises(KeyboardInterrupt):
            client.lock("job").acquire()
        for server in three.servers:
            wait_for(lambda server=server: not locks_on(server))  # type: ignore[misc]
