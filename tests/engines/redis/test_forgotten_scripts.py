"""A node that has forgotten the scripts: what could not be carried out is said again, except an
acquire whose release has gone out meanwhile. It would come behind it, and nobody would undo it."""

from collections.abc import Callable, Sequence
from typing import Any

import hiredis
import pytest

from holdfast.core.attempt import attempt_id
from holdfast.core.fanout import FanOut
from holdfast.core.guard import RestartGuard
from holdfast.core.messages import Acquire, Failed, Release
from holdfast.core.ports import StoreHost
from holdfast.engines.redis.addresses import server as server_at
from holdfast.engines.redis.nodes import Node
from holdfast.engines.redis.owed import Owed
from holdfast.engines.redis.scripts import scripts
from holdfast.engines.redis.speech import Speech
from holdfast.lab.faults.proxy import Proxy
from holdfast.lab.servers.redis import RedisServer
from tests.engines.redis.conftest import Invite
from tests.engines.redis.party import Party
from tests.equipment.servers.masters import RedisMasters
from tests.patience import wait_for

LONG = 55.0
"""A ttl that a test does not outlast, so that what is gone was given back."""

MISSING = hiredis.ReplyError("NOSCRIPT No matching script")


def holders(servers: Sequence[RedisServer], name: str) -> list[object]:
    return [server.command("GET", f"holdfast:{name}") for server in servers]


def reaches_all(party: Party, masters: RedisMasters) -> Callable[[], bool]:
    """Whether a lock is granted by all: what was said before on the same connections is over."""

    def look() -> bool:
        lease = party.takes("warm-up")
        reached = all(holders(masters.servers, "warm-up"))
        party.drops(lease)
        return reached

    return look


def test_what_was_given_back_is_not_asked_for_again(three: RedisMasters, invite: Invite) -> None:
    """Somebody else loads the scripts after the acquire has come to nothing, and before its release
    comes."""
    forgetful = three.servers[0]
    with Proxy(forgetful.port) as proxy:
        hosts = ",".join([proxy.address, *(server.address for server in three.servers[1:])])
        party = invite(f"redlock://{hosts}?restart_guard=off", ttl=LONG)
        wait_for(reaches_all(party, three))
        forgetful.command("SCRIPT", "FLUSH")
        proxy.hold("replies")
        lease = party.takes("ghost")
        wait_for(lambda: proxy.waiting("replies"))
        for script in scripts():
            forgetful.command("SCRIPT", "LOAD", script.source.decode())
        refusal = proxy.waiting("replies")
        party.drops(lease)
        wait_for(lambda: proxy.waiting("replies") > refusal)
        proxy.mark_released()
        wait_for(reaches_all(party, three))
        assert holders(three.servers, "ghost") == [None] * 3


@pytest.mark.parametrize("release", ["me", "me#2", "me#3"])
def test_whichever_name_it_was_given_back_in(release: str) -> None:
    ignore: Any = lambda _: None  # noqa: E731 - it is nobody's
    around = StoreHost(lambda: 0.0, ignore, ignore)
    address = server_at({"host": "nowhere", "port": 1})
    node = Node(0, address, RestartGuard(1.0), around)
    speech = Speech(quorum=True, keep=1.0, channel="channel")

    def owed(request: Acquire | Release) -> Owed:
        poll = FanOut((request,), (0,), 1.0)
        return Owed(speech.phrase(poll.requests), poll)

    asked = owed(Acquire("job", attempt_id("me", 2), 1.0))
    assert asked.hear(node, [MISSING], [owed(Release("job", "you"))]) is not None
    assert asked.hear(node, [MISSING], [owed(Release("job", release))]) is None
    assert isinstance(asked.poll.said(0), Failed)
