"""However many wait, a release is the business of one of them."""

import asyncio

import holdfast
from tests.equipment.servers.zookeeper import ZooKeeperServer

CALM = "tick=2&max_ttl=120"
"""With a tick that is said to be long, little is sent that nobody asked for."""

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
