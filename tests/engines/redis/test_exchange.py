"""One exchange of a thread with a single server: a late reply, and a Ctrl-C in the middle."""

import subprocess
import sys
import threading
from typing import Any

import holdfast
from holdfast.lab.servers.redis import RedisServer
from tests.patience import wait_for

PROGRAM = [sys.executable, "-m", "tests.engines.redis.struck"]
ROUNDS = 150
HANGS_AFTER = 100.0


def test_what_the_server_says_is_understood_after_any_strike(server: RedisServer) -> None:
    command = [*PROGRAM, server.url, str(ROUNDS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_AFTER)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) > 0


def test_what_undoes_an_acquire_goes_out_behind_it(server: RedisServer) -> None:
    program = subprocess.Popen(
        [*PROGRAM, server.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with program:
        assert program.stdin
        assert program.stdout
        assert program.stdout.readline() == "ready\n"
        server.freeze()
        program.stdin.write("go\n")
        program.stdin.flush()
        assert program.stdout.readline() == "struck\n"
        server.thaw()
        assert program.stdout.readline() == "True\n"
        assert program.wait(HANGS_AFTER) == 0


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
