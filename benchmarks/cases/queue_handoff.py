"""Many wait in a queue for a lock that goes from hand to hand: how many messages is a hand-off? As
many with a long queue as with a short one, if a release wakes one waiter and not all."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks import relay, servers
from benchmarks.measure import Case, Effort, at_most, figures, interleave, rows

MOST_OVER_FEW = 1.2


def measure_etcd(effort: Effort, folder: Path) -> Case:
    server = servers.etcd()
    return _measure("etcd-handoff", "etcd", server.url, server.messages, effort)


def measure_zookeeper(effort: Effort, folder: Path) -> Case:
    server = servers.zookeeper()
    count = partial(server.figure, "packets_received")
    return _measure("zookeeper-handoff", "ZooKeeper", server.url, count, effort)


def _measure(name: str, engine: str, url: str, count: Callable[[], int], effort: Effort) -> Case:
    few, _, many = effort.queues
    teams: dict[str, tuple[relay.Run, int]] = {
        f"holdfast, {few} threads": (relay.threads, few),
        f"holdfast, {many} threads": (relay.threads, many),
        f"holdfast, {few} tasks": (relay.tasks, few),
        f"holdfast, {many} tasks": (relay.tasks, many),
    }
    with ExitStack() as stack:
        runners = relay.Relay(url, many, stack)

        def passed_on(label: str) -> relay.Result:
            return runners.run(*teams[label], effort.relay, count)

        results = interleave({label: partial(passed_on, label) for label in teams}, effort.relays)
    values = figures(results, lambda result: result.counted / len(result.holds))
    few_threads, many_threads, few_tasks, many_tasks = teams
    return Case(
        name,
        f"{few} and {many} waiters, one after the other, {engine}",
        f"Each takes the lock, holds it for {relay.MOMENT * 1000:g} ms, releases it and queues "
        f"up again, in up to {relay.PROCESSES} processes with one client each. Counted is what "
        "reaches the server: every call, and every message on a stream.",
        "",
        rows(values, "messages a hand-off", 1, "")
        + rows(figures(results, lambda result: result.gap), "ms from release to next", 1e3, ""),
        (
            at_most(values, many_threads, few_threads, MOST_OVER_FEW),
            at_most(values, many_tasks, few_tasks, MOST_OVER_FEW),
        ),
    )
