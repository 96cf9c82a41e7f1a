"""Count under one lock while clients are stopped: `python -m tests.equipment.counting URL`.

Exit code 0 if the fenced register lost nothing, else 1.
"""

import argparse
import sys

from tests.equipment.counting.trial import trial


def main() -> int:
    """Run it, and tell what came of it; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.equipment.counting", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--ttl", type=float, default=2.0)
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two pauses")
    given = parser.parse_args()
    tally = trial(
        given.url,
        seconds=given.seconds,
        ttl=given.ttl,
        clients=given.clients,
        every=given.every,
    )
    print(tally)
    return 1 if tally.fenced.lost else 0


if __name__ == "__main__":
    sys.exit(main())
