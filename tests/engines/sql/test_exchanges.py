"""The connections of a client, where two threads meet."""

from random import Random
from typing import Any

from holdfast.engines.sql.exchanges import Exchanges
from holdfast.engines.sql.postgres.commands import Statements
from holdfast.engines.sql.waiters import Waiters


def test_a_connection_is_closed_once_although_two_threads_close_the_store() -> None:
    """The fault: PyMySQL raises if it is closed again, and so did closing the client."""
    closed: list[object] = []
    waiters = Waiters(lambda: 0.0, lambda holder: None)
    statements = Statements("holdfast_leases")
    exchanges = Exchanges("db", statements, lambda: 0.0, Random(1).uniform, waiters, 2)

    class Connection:
        def close(self) -> None:
            closed.append(self)
            exchanges.close()  # of another thread, at this moment

    both: list[Any] = [Connection(), Connection()]
    exchanges.connections.update(both)
    exchanges.close()
    assert len(closed) == len(set(closed)) == 2
