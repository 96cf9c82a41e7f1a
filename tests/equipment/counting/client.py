"""A client that counts until its input ends: `python -m tests.equipment.counting.client URL TTL`.

It asks on stdout and hears the answer on stdin, a line of JSON each: `{"fence": 7}` is answered
with the registers' numbers, and `{"fence": 7, "values": [4, 4]}` when they are written. It is
careless on purpose: it does not look at its lease before it writes.
"""

import json
import logging
import sys
import time
from typing import Any

from holdfast.client import Client
from holdfast.errors import LockError
from tests.equipment.counting.trial import NAME

A_TURN = 0.01
"""How long a client has the lock for, in seconds."""


class _Over(Exception):
    """The parent process has ended."""


def main(url: str, ttl: float) -> None:
    """Count, and count again."""
    logging.getLogger("holdfast").addHandler(logging.NullHandler())  # losses are what it is for
    try:
        with Client(url, ttl=ttl) as client:
            while True:
                _take_turn(client)
    except _Over:
        return


def _take_turn(client: Client) -> None:
    try:
        with client.lock(NAME) as lease:
            numbers = _ask({"fence": lease.fence})
            time.sleep(A_TURN)
            more = [None if number is None else number + 1 for number in numbers]
            _ask({"fence": lease.fence, "values": more})
    except LockError:
        return  # it was lost meanwhile, as it is to be


def _ask(question: dict[str, Any]) -> Any:
    print(json.dumps(question), flush=True)
    answer = sys.stdin.readline()
    if not answer:
        raise _Over
    return json.loads(answer)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
