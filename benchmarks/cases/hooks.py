"""What do hooks cost the caller? They run in threads of their own, but on the same interpreter."""

from functools import partial
from pathlib import Path

from benchmarks import pairs
from benchmarks.contenders import Opening, compare
from benchmarks.measure import Case, Effort, at_most, rows
from holdfast.lab.servers.redis import RedisServer

NO_HOOK, HOOK, METRICS = "no hook", "a hook that does nothing", "metrics for Prometheus"
LOOKS = "looking whether there is one"
MOST_OVER_NONE, MOST_OF_NONE = 1.5, 0.01


def measure(effort: Effort, folder: Path) -> Case:
    with RedisServer() as server:
        openings: dict[str, Opening] = {
            NO_HOOK: partial(pairs.by_thread, server.url),
            LOOKS: pairs.looks_for_hooks,
            HOOK: partial(pairs.with_hook, server.url),
            METRICS: partial(pairs.with_metrics, server.url),
        }
        values = compare(openings, effort.batch // 2 + 1, effort.rounds // 2 + 1)
    return Case(
        "hooks",
        "Uncontended acquire and release with hooks, Redis",
        "A client without hooks makes no events: it looks at a flag three times a pair. With one, "
        "a pair makes five, and each is handed to the hook's thread.",
        NO_HOOK,
        rows(values, "µs", 1e6, NO_HOOK),
        (
            at_most(values, HOOK, NO_HOOK, MOST_OVER_NONE),
            at_most(values, LOOKS, NO_HOOK, MOST_OF_NONE),
        ),
    )
