"""The queue on a real server: who is woken, what is left, what is found again."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import NoNodeError

import holdfast
from holdfast.core.messages import DONE, Break
from holdfast.engines.zookeeper import commands
from holdfast.engines.zookeeper.commands import Tree, name_of, number_of
from holdfast.engines.zookeeper.inspect import break_lock
from tests.engines.zookeeper.glimpse import outsider, places
from tests.equipment.servers.proxy import Proxy
from tests.equipment.servers.zookeeper import ZooKeeperServer
from tests.patience import wait_for

CALM = "tick=2&max_ttl=120"
"""With a tick that is said to be long, little is sent that nobody asked for."""


@pytest.fixture
def proxy(server: ZooKeeperServer) -> Iterator[Proxy]:
    with Proxy(server.port) as proxy:
        yield proxy


def test_a_renewal_wakes_nobody(server: ZooKeeperServer) -> None:
    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        ann, ben = (stack.enter_context(holdfast.Client(server.url)) for _ in range(2))
        lease = ann.lock("calm", ttl=20).acquire()
        assert lease
        waiting = pool.submit(ben.lock("calm", ttl=20).acquire)
        wait_for(lambda: (info := ann.inspect("calm")) is not None and info.waiters == 1)
        before = server.figure("sum_node_changed_watch_count")
        for _ in range(5):
            lease.extend()
        assert server.figure("sum_node_changed_watch_count") == before
        lease.release()
        theirs = waiting.result(10)
        assert theirs
        theirs.release()


def test_a_waiter_that_leaves_does_not_break_the_line(server: ZooKeeperServer) -> None:
    with ThreadPoolExecutor(2) as pool, ExitStack() as stack:
        ann, ben, cleo = (stack.enter_context(holdfast.Client(server.url)) for _ in range(3))
        lease = ann.lock("line", ttl=20).acquire()
        assert lease
        first = pool.submit(ben.lock("line", ttl=20).acquire)
        wait_for(lambda: (info := ann.inspect("line")) is not None and info.waiters == 1)
        second = pool.submit(cleo.lock("line", ttl=20).acquire)
        wait_for(lambda: (info := ann.inspect("line")) is not None and info.waiters == 2)
        ben.close()
        assert first.exception(10)
        wait_for(lambda: (info := ann.inspect("line")) is not None and info.waiters == 1)
        assert not second.done(), "the lock is still held"
        lease.release()
        theirs = second.result(10)
        assert theirs
        theirs.release()


def test_a_place_whose_reply_was_lost_is_found_again(server: ZooKeeperServer, proxy: Proxy) -> None:
    url = f"zookeeper://{proxy.address}?{CALM}"
    with holdfast.Client(url) as client, outsider(server) as eye, ThreadPoolExecutor(1) as pool:
        with client.lock("lost join", ttl=20):
            pass  # connected from here on
        proxy.lose_replies()
        asking = pool.submit(client.lock("lost join", ttl=20).acquire)
        wait_for(lambda: len(places(eye, "lost join")) == 1)
        proxy.heal()
        lease = asking.result(20)
        assert lease
        [place] = places(eye, "lost join")
        assert lease.fence == eye.exists(f"/holdfast/locks/holdfast:lost join/{place}").czxid
        lease.release()
        assert not places(eye, "lost join")


def test_a_release_whose_reply_was_lost_is_a_release(server: ZooKeeperServer, proxy: Proxy) -> None:
    url = f"zookeeper://{proxy.address}?{CALM}"
    with holdfast.Client(url) as client, outsider(server) as eye, ThreadPoolExecutor(1) as pool:
        lease = client.lock("lost leave", ttl=20).acquire()
        assert lease
        proxy.lose_replies()
        leaving = pool.submit(lease.release)
        wait_for(lambda: not places(eye, "lost leave"))
        proxy.heal()
        leaving.result(20)


def test_what_could_not_be_given_back_is_given_back_later(
    server: ZooKeeperServer, proxy: Proxy
) -> None:
    """The session lives on, so the place would be there for ever."""
    url = f"zookeeper://{proxy.address}?{server.terms}"
    with holdfast.Client(url) as client, outsider(server) as eye:
        kept = client.lock("kept", ttl=20).acquire()
        lease = client.lock("owed", ttl=20).acquire()
        assert lease
        assert kept
        proxy.cut()
        with pytest.raises(holdfast.EngineUnavailable):
            lease.release()
        proxy.heal()
        wait_for(lambda: not places(eye, "owed"))
        assert len(places(eye, "kept")) == 1
        kept.release()


def test_a_lease_moves_to_a_longer_session_without_losing_its_turn(
    server: ZooKeeperServer,
) -> None:
    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        ann, ben = (stack.enter_context(holdfast.Client(server.url)) for _ in range(2))
        eye = stack.enter_context(outsider(server))
        lease = ann.lock("longer", ttl=10, renew=False).acquire()
        assert lease
        waiting = pool.submit(ben.lock("longer", ttl=20).acquire)
        wait_for(lambda: (info := ann.inspect("longer")) is not None and info.waiters == 1)
        lease.extend(ttl=30)
        assert lease.remaining() > 20
        assert len(places(eye, "longer")) == 2
        info = ben.inspect("longer")
        assert info
        assert (info.holder, info.fence) == (lease.holder, lease.fence)
        assert not waiting.done()
        lease.release()
        theirs = waiting.result(10)
        assert theirs
        assert theirs.fence > lease.fence


def test_a_move_whose_reply_was_lost_is_a_move(server: ZooKeeperServer, proxy: Proxy) -> None:
    url = f"zookeeper://{proxy.address}?{CALM}"
    with holdfast.Client(url) as client, outsider(server) as eye, ThreadPoolExecutor(1) as pool:
        with client.lock("another", ttl=60):
            pass  # both sessions are connected from here on
        lease = client.lock("lost move", ttl=20).acquire()
        assert lease
        [before] = places(eye, "lost move")
        proxy.lose_replies()
        moving = pool.submit(lease.extend, ttl=60)
        wait_for(lambda: places(eye, "lost move") != [before])
        proxy.heal()
        moving.result(20)
        assert lease.remaining() > 30
        [after] = places(eye, "lost move")
        assert number_of(after) == number_of(before), "it keeps its turn"
        lease.release()
        assert not places(eye, "lost move")


def test_a_break_whose_reply_was_lost_breaks_no_other(
    server: ZooKeeperServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its outcome is unknown, and it is not sent again: the next holder has the lock by then."""
    url = f"zookeeper://{proxy.address}?{CALM}"
    with ThreadPoolExecutor(2) as pool, ExitStack() as stack:
        ann, ben = (stack.enter_context(holdfast.Client(server.url)) for _ in range(2))
        operator = stack.enter_context(holdfast.Client(url))
        lease = ann.lock("broken", ttl=20).acquire()
        assert lease
        waiting = pool.submit(ben.lock("broken", ttl=20).acquire)
        wait_for(lambda: (info := operator.inspect("broken")) is not None and info.waiters == 1)
        delete = commands.delete

        def delete_unheard(path: str) -> commands.Call:
            monkeypatch.undo()
            proxy.lose_replies()
            return delete(path)

        monkeypatch.setattr(commands, "delete", delete_unheard)
        breaking = pool.submit(operator.break_lock, "broken")
        theirs = waiting.result(20)
        proxy.heal()
        with pytest.raises(holdfast.EngineUnavailable):
            breaking.result(20)
        assert theirs
        theirs.extend()
        theirs.release()


def test_a_waiter_that_gave_up_leaves_no_watch(server: ZooKeeperServer) -> None:
    """kazoo keeps each function that watches a place for as long as that is there."""
    with holdfast.Client(server.url, ttl=20) as ann, holdfast.Client(server.url, ttl=20) as ben:
        lease = ann.lock("long").acquire()
        assert lease
        for _ in range(5):
            assert ben.lock("long").acquire(timeout=0.3) is None
        [session] = ben._driver._store._exchanges.sessions  # type: ignore[attr-defined]
        [watchers] = session._connection._child_watchers.values()
        assert len(watchers) == 1
        lease.release()


def test_a_chroot_is_made_if_need_be(server: ZooKeeperServer) -> None:
    url = f"zookeeper://{server.address}/team/app?{server.terms}"
    with holdfast.Client(url) as client, outsider(server) as eye:
        with client.lock("door", ttl=20):
            assert len(places(eye, "door", "/team/app/holdfast/locks/holdfast:")) == 1
        assert client.cell("stock").set("1", expect=0)
        assert eye.exists("/team/app/holdfast/cells/holdfast:stock")


FEW, MANY = 10, 100
A_HAND_OFF = 3
"""Messages: one leaves; the next writes to its own place, and looks at the queue."""

SLACK = 5
"""For what the client says meanwhile to keep its session, and to look for wake-ups that are lost.
If each release were told to all, it would be a hundred."""


async def waiting(client: holdfast.AsyncClient) -> int | None:
    try:
        info = await client.inspect("herd")
    except holdfast.EngineUnavailable:  # on a busy machine
        return None
    return info.waiters if info else None


async def hand_offs(server: ZooKeeperServer, waiters: int) -> tuple[float, int]:
    """Have so many wait, and let each take its turn: how many messages there were for each, and how
    many watches went off."""
    url = f"zookeeper://{server.address}?{CALM}"
    async with holdfast.AsyncClient(url, ttl=60) as client, asyncio.timeout(90):

        async def take_turn() -> None:
            async with client.lock("herd"):
                pass

        first = await client.lock("herd").acquire()
        assert first
        others = [asyncio.create_task(take_turn()) for _ in range(waiters)]
        while await waiting(client) != waiters:  # noqa: ASYNC110 - nobody is told of it
            await asyncio.sleep(0.01)
        messages = server.figure("packets_received")
        watches = server.figure("sum_node_deleted_watch_count")
        await first.release()
        await asyncio.gather(*others)
        messages = server.figure("packets_received") - messages
        return messages / waiters, server.figure("sum_node_deleted_watch_count") - watches


def test_the_messages_for_a_hand_off_do_not_depend_on_how_many_wait(
    server: ZooKeeperServer,
) -> None:
    few, _ = asyncio.run(hand_offs(server, FEW))
    many, watches = asyncio.run(hand_offs(server, MANY))
    assert many <= A_HAND_OFF + SLACK
    assert many <= few + SLACK
    assert watches == MANY, "one waiter is woken for each release"


def test_a_lock_that_is_handed_over_while_it_is_broken_is_broken() -> None:
    """It was held all the time, so it must not count as free."""
    first, second = name_of(1, "host/1/program/ann", 3), name_of(2, "host/2/program/ben", 4)
    sessions: Any = SimpleNamespace(any=SimpleNamespace)
    breaking = break_lock(Tree(""), sessions, Break("job"))
    next(breaking)
    breaking.send([None, [first, second]])  # reads the queue, and deletes the first place
    breaking.send([NoNodeError()])  # which was released just now: it reads the queue again
    breaking.send([None, [second]])
    with pytest.raises(StopIteration) as end:
        breaking.send([None])
    assert end.value.value == DONE
