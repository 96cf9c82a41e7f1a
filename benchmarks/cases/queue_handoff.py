"""Many wait in a queue for a lock that goes from hand to hand: how many messages is a hand-off? As
many with a long queue as with a short one, if a release wakes one waiter and not all."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks import relay, servers
from benchmarks.measure import Case, Effort, at_most, interleave, rows

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
    gaps: dict[str, list[float]] = {label: [] for label in teams}
    with ExitStack() as stack:
        runners = relay.Relay(url, many, stack)

        def messages(label: str) -> float:
            run, waiters = teams[label]
            result = runners.run(run, waiters, effort.relay, count)
            gaps[label].append(result.gap)
            return result.counted / len(result.holds)

        values = interleave({label: partial(messages, label) for label in teams}, effort.relays)
    few_threads, many_threads, few_tasks, many_tasks = teams
    return Case(
        name,
        f"{few} and {many} waiters, one after the other, {engine}",
        f"Each takes the lock, holds it for {relay.MOMENT * 1000:g} ms, releases it and queues "
        f"up again, in up to {relay.PROCESSES} processes with one client each. Counted is what "
        "reaches the server: every call, and every message on a stream.",
        "",
        rows(values, "messages a hand-off", 1, "")
        + rows({label: gaps[label][1:] for label in gaps}, "ms from release to next", 1e3, ""),
        (
            at_most(values, many_threads, few_threads, MOST_OVER_FEW),
            at_most(values, many_tasks, few_tasks, MOST_OVER_FEW),
        ),
    )
