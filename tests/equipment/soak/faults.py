"""What is done in a soak. Each fault lasts as long as its context, and is over afterwards."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from holdfast.lab.history import Kind
from tests.equipment.disk import fill_disk
from tests.equipment.servers.proxy import Proxy
from tests.equipment.soak.ground import TTL, Client, Ground, Node
from tests.equipment.soak.journal import Journal


@contextmanager
def frozen(journal: Journal, whom: Node | Client) -> Iterator[None]:
    """It is stopped: connections stay, nothing is answered, and clocks run on."""
    whom.process.freeze()
    journal.note(whom.name, Kind.PAUSED)
    try:
        yield
    finally:
        journal.note(whom.name, Kind.RESUMED)
        whom.process.thaw()


@contextmanager
def outlived(journal: Journal, whom: Client) -> Iterator[None]:
    """It is stopped until its lease has surely expired, and then resumes where it was."""
    with frozen(journal, whom):
        ends_at = journal.now() + 1.2 * TTL
        yield
        time.sleep(max(0.0, ends_at - journal.now()))


@contextmanager
def killed(journal: Journal, whom: Node | Client) -> Iterator[None]:
    """It dies without a word, and is started again at the end."""
    whom.process.kill()
    journal.note(whom.name, Kind.CRASHED)
    try:
        yield
    finally:
        _start(journal, whom)


@contextmanager
def restarted(journal: Journal, node: Node) -> Iterator[None]:
    """It ends in order and is started again at once."""
    node.process.stop()
    journal.note(node.name, Kind.CRASHED, "in order")
    _start(journal, node)
    yield


@contextmanager
def disk_full(journal: Journal, node: Node) -> Iterator[None]:
    """It cannot write. A durable node ends at its next write, and is started again at the end."""
    fill_disk(node.process)
    journal.note(node.name, Kind.CRASHED, "its disk is full")
    try:
        yield
    finally:
        node.process.kill()
        _start(journal, node)


@contextmanager
def disturbed(journal: Journal, what: str, node: Node, clients: Sequence[Client]) -> Iterator[None]:
    """The network between these clients and one node is not well: see `DISTURBANCES`."""
    for client in clients:
        DISTURBANCES[what](client.links[node.name])
        journal.note(client.name, Kind.CUT, what, peer=node.name)
    try:
        yield
    finally:
        for client in clients:
            client.links[node.name].heal()
            journal.note(client.name, Kind.HEALED, peer=node.name)


DISTURBANCES: dict[str, Callable[[Proxy], None]] = {
    "cut": Proxy.cut,
    "requests cut": lambda proxy: proxy.cut("requests"),
    "replies cut": lambda proxy: proxy.cut("replies"),
    "late": Proxy.hold,
    "replies late": lambda proxy: proxy.hold("replies"),
    "replies lost": Proxy.lose_replies,
    "slow": lambda proxy: proxy.delay(0.02, jitter=0.02),
    "half-open": Proxy.half_open,
    "reset": Proxy.reset,
}


@contextmanager
def amnesia(ground: Ground, absent: Node) -> Iterator[None]:
    """The nodes that forget do so at once, when one of the others has missed what they knew.

    The three are a majority: if their votes counted, they would grant what a holder, who stands
    still and cannot notice anything, has.
    """
    journal = ground.journal
    with ExitStack() as stillness:
        with disturbed(journal, "cut", absent, ground.clients):
            time.sleep(TTL / 2)  # for leases that this node never hears of
            stillness.enter_context(frozen(journal, ground.likely_holder()))
            with ExitStack() as outage:
                for node in ground.nodes:
                    if not node.durable:
                        outage.enter_context(killed(journal, node))
        yield


def _start(journal: Journal, whom: Node | Client) -> None:
    whom.process.start()
    forgets = isinstance(whom, Node) and not whom.durable
    journal.note(whom.name, Kind.STARTED, "it has forgotten everything" if forgets else "")
