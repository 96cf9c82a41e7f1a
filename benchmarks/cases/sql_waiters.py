"""A hundred wait for a lock in MariaDB, which notifies no client: how often do they poll?"""

import threading
import time
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import holdfast
from benchmarks import servers
from benchmarks.contenders import TTL
from benchmarks.measure import Case, Effort, Row, Spread, figure_at_most
from benchmarks.workers import Worker
from tests.equipment.servers.mariadb import MariaDbServer

PROCESSES = 10
MOST_STATEMENTS = 100.0
NAME = "waited for"


def measure_mariadb(effort: Effort, folder: Path) -> Case:
    *_, waiters = effort.queues
    server = servers.mariadb()
    with ExitStack() as stack:
        client = stack.enter_context(holdfast.Client(server.url))
        stack.enter_context(client.lock(NAME, ttl=TTL))
        processes = min(PROCESSES, waiters)
        workers = [
            stack.enter_context(Worker(wait_in_clients, server.url, waiters // processes))
            for _ in range(processes)
        ]
        for worker in workers:
            worker.answer()
        time.sleep(effort.window)  # the longer they wait, the less often they ask
        began, before = time.monotonic(), _statements(server)
        time.sleep(effort.window)
        rate = (_statements(server) - before) / (time.monotonic() - began)
    return Case(
        "mariadb-waiters",
        f"{waiters} idle waiters, MariaDB",
        f"Each with a client of its own, in {processes} processes; counted after "
        f"{effort.window:g} s of waiting. Those of one client stand in line, and only the first "
        "of them asks.",
        "",
        (Row("holdfast", "statements a second", Spread.of([rate]), ours=True),),
        (
            figure_at_most(
                f"at most {MOST_STATEMENTS:g} statements a second in all",
                [rate],
                MOST_STATEMENTS,
                "a second",
            ),
        ),
    )


def wait_in_clients(pipe: "Connection[Any, Any]", url: str, waiters: int) -> None:
    """Wait in that many threads, each with a client of its own, until the pipe is closed."""
    with ExitStack() as stack:
        for _ in range(waiters):
            client = stack.enter_context(holdfast.Client(url))
            threading.Thread(target=_wait_forever, args=(client,), daemon=True).start()
        pipe.send("waiting")
        pipe.recv()


def _wait_forever(client: holdfast.Client) -> None:
    with suppress(holdfast.LockError):  # the client is closed at the end
        client.lock(NAME, ttl=TTL).acquire()


def _statements(server: MariaDbServer) -> int:
    """How many statements clients have sent since it was started, this one among them."""
    [(_, count)] = server.query("SHOW GLOBAL STATUS LIKE 'Questions'")
    return int(count)
