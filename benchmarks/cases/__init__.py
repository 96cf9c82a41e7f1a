"""The questions, one a file. Each `measure` takes an effort and a scratch folder."""

from collections.abc import Callable
from pathlib import Path

from benchmarks.cases import contention, handoff, idle, leases, memory, startup, uncontended
from benchmarks.measure import Case, Effort

CASES: dict[str, Callable[[Effort, Path], Case]] = {
    "uncontended": uncontended.measure,
    "memory": memory.measure,
    "handoff": handoff.measure,
    "idle": idle.measure,
    "leases": leases.measure,
    "contention": contention.measure,
    "startup": startup.measure,
}
