"""A node that has forgotten the scripts: what could not be carried out is said again, except an
acquire whose release has gone out meanwhile. It would come behind it, and nobody would undo it."""

from collections.abc import Callable, Sequence

from holdfast.engines.redis.exchange import SCRIPTS, script
from holdfast.lab.servers.redis import RedisServer
from tests.engines.redis.conftest import Invite
from tests.engines.redis.party import Party
from tests.equipment.servers.masters import RedisMasters
from tests.equipment.servers.proxy import Proxy
from tests.patience import wait_for

LONG = 55.0
"""A ttl that a test does not outlast, so that what is gone was given back."""


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
        for name in SCRIPTS:
            forgetful.command("SCRIPT", "LOAD", script(name).source.decode())
        refusal = proxy.waiting("replies")
        party.drops(lease)
        wait_for(lambda: proxy.waiting("replies") > refusal)
        proxy.release()
        wait_for(reaches_all(party, three))
        assert holders(three.servers, "ghost") == [None] * 3
