"""Contend for locks under faults, and judge what happened.

Exit code 0 if nothing was found, 1 if something was, 69 if a server's program is missing.
"""

import argparse
import secrets
import signal
import sys
import tempfile
import time
from pathlib import Path

from holdfast.lab.servers.process import ProgramMissing
from tests.equipment.soak.campaign import Campaign
from tests.equipment.soak.ground import CLIENTS, DURABLE, NAMES, NODES, TTL, Ground
from tests.equipment.soak.journal import as_line
from tests.equipment.soak.verdict import Verdict, reach

CALM = 10.0
"""How many seconds without faults there are at the end, in which everything must work again."""

SHORTEST = 2 * CALM
UNAVAILABLE = 69
"""As in sysexits.h, and as the command line has it."""

INTERRUPTED = 128 + signal.SIGINT


def main(arguments: list[str] | None = None) -> int:
    """Run it, and tell what came of it; the exit code."""
    given = _parse(arguments)
    print(
        f"soak: {given.seconds:g} s, seed {given.seed}; {CLIENTS} clients want {len(NAMES)} locks "
        f"(ttl {TTL:g} s) over {NODES} nodes, of which {DURABLE} forget nothing",
        flush=True,
    )
    try:
        verdict = soak(given.seconds, given.seed)
    except ProgramMissing as missing:
        print(f"soak: {missing}", file=sys.stderr)
        return UNAVAILABLE
    except KeyboardInterrupt:
        return INTERRUPTED
    print(verdict.summary())
    if given.history or not verdict.clean:
        file = given.history or Path(f"soak-{given.seed}.jsonl")
        file.write_text("".join(map(as_line, verdict.history)))
        print(f"the history is in {file}")
    return 0 if verdict.clean else 1


def soak(seconds: float, seed: int) -> Verdict:
    """Run it for so long. The same seed deals the same faults, at about the same instants."""
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-soak-") as folder,
        Ground(Path(folder)) as ground,
    ):
        campaign = Campaign(ground, seed)
        campaign.run(seconds - CALM)
        time.sleep(CALM)
        over = ground.journal.now()
        complaints = list(ground.see_off())
        stored = ground.stored()
        return reach(ground.history(), over, campaign.dealt, complaints, stored)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.equipment.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--history", type=Path, help="keep what happened, an event a line")
    given = parser.parse_args(arguments)
    if given.seconds < SHORTEST:
        parser.error(f"--seconds: must be at least {SHORTEST:g}, got {given.seconds:g}")
    return given


if __name__ == "__main__":
    sys.exit(main())
