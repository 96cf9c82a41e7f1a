"""Looking at a server's nodes from outside."""

from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.equipment.servers.zookeeper import ZooKeeperServer

LOCKS = "/holdfast/locks/holdfast:"


@contextmanager
def outsider(*servers: ZooKeeperServer) -> Iterator[KazooClient]:
    client = KazooClient(",".join(server.address for server in servers), timeout=20)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def places(client: KazooClient, name: str, above: str = LOCKS) -> list[str]:
    """The nodes in the queue for a lock."""
    try:
        client.sync("/")
        found: list[str] = client.get_children(f"{above}{name}")
    except NoNodeError:
        return []
    return found
