"""The questions, one a file. Each `measure` takes an effort and a scratch folder."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.cases import (
    contention,
    etcd_pairs,
    handoff,
    hooks,
    idle,
    leases,
    memory,
    queue_handoff,
    redis_contention,
    redis_handoff,
    redis_leases,
    redis_outage,
    redis_pairs,
    redis_tasks,
    shares,
    sql_handoff,
    sql_pairs,
    sql_waiters,
    startup,
    uncontended,
    zookeeper_pairs,
)
from benchmarks.measure import Case, Effort

CASES: dict[str, Callable[[Effort, Path], Case]] = {
    "uncontended": uncontended.measure,
    "memory": memory.measure,
    "handoff": handoff.measure,
    "idle": idle.measure,
    "leases": leases.measure,
    "contention": contention.measure,
    "redis-sync": redis_pairs.measure_single,
    "redis-threads": redis_pairs.measure_threads,
    "redis-async-1": partial(redis_tasks.measure_single, size=0),
    "redis-async-100": partial(redis_tasks.measure_single, size=1),
    "redis-async-1000": partial(redis_tasks.measure_single, size=2),
    "redis-handoff": redis_handoff.measure,
    "redis-leases": redis_leases.measure,
    "redis-contention-2": partial(redis_contention.measure_processes, size=0),
    "redis-contention-16": partial(redis_contention.measure_processes, size=1),
    "redis-contention-100": partial(redis_contention.measure_processes, size=2),
    "redis-contention-threads": redis_contention.measure_threads,
    "redis-contention-tasks": redis_contention.measure_tasks,
    "redlock-sync": redis_pairs.measure_quorum,
    "redlock-async": redis_tasks.measure_quorum,
    "redlock-outage": redis_outage.measure,
    "postgres-sync": sql_pairs.measure_postgres,
    "postgres-async": sql_pairs.measure_postgres_async,
    "postgres-handoff": sql_handoff.measure_postgres,
    "mariadb-sync": sql_pairs.measure_mariadb,
    "mariadb-async": sql_pairs.measure_mariadb_async,
    "mariadb-waiters": sql_waiters.measure_mariadb,
    "etcd-sync": etcd_pairs.measure_threads,
    "etcd-async": etcd_pairs.measure_tasks,
    "etcd-handoff": queue_handoff.measure_etcd,
    "zookeeper-sync": zookeeper_pairs.measure_threads,
    "zookeeper-async": zookeeper_pairs.measure_tasks,
    "zookeeper-handoff": queue_handoff.measure_zookeeper,
    **{
        f"{engine}-reader": partial(shares.measure_reader, engine=engine)
        for engine in shares.ENGINES
    },
    "redis-semaphore": shares.measure_redis_semaphore,
    "zookeeper-semaphore": shares.measure_zookeeper_semaphore,
    "hooks": hooks.measure,
    "startup": startup.measure,
}
