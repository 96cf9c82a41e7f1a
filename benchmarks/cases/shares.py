"""Locks that several may hold: what does a reader cost, and how much gets through a semaphore?"""

from functools import partial
from pathlib import Path

from benchmarks import pairs, semaphores, servers, zookeeper
from benchmarks.contenders import Opening, compare, in_threads
from benchmarks.measure import Case, Effort, Target, at_least, at_most, faster, rows
from holdfast.lab.servers.redis import RedisServer

EXCLUSIVE, READER, SLOT = "holdfast, a lock", "holdfast, a reader", "holdfast, a slot"
MOST_OVER_EXCLUSIVE = 1.3
KAZOO_READER, KAZOO_SLOT = "kazoo ReadLock", "kazoo Semaphore"

OURS, TOKENS = "holdfast", "a list of tokens"
RECIPE, REDISSON = "sorted sets, redis-py", "as Redisson does, redis-py"
SLOTS = 10

ENGINES = {
    "sqlite": "SQLite",
    "redis": "Redis",
    "postgres": "PostgreSQL",
    "mariadb": "MariaDB",
    "etcd": "etcd",
    "zookeeper": "ZooKeeper",
}


def measure_reader(effort: Effort, folder: Path, engine: str) -> Case:
    if engine == "redis":
        with RedisServer() as server:
            return _reader(effort, engine, server.url, {}, ())
    if engine == "sqlite":
        return _reader(effort, engine, f"sqlite://{folder}/locks.db", {}, ())
    server = getattr(servers, engine)()
    peers: dict[str, Opening] = {}
    if engine == "zookeeper":
        peers = {
            KAZOO_READER: partial(zookeeper.read_recipe, server.address),
            KAZOO_SLOT: partial(zookeeper.semaphore_recipe, server.address, SLOTS),
        }
    return _reader(effort, engine, server.url, peers, ((READER, KAZOO_READER), (SLOT, KAZOO_SLOT)))


def _reader(
    effort: Effort,
    engine: str,
    url: str,
    peers: dict[str, Opening],
    contests: tuple[tuple[str, str], ...],
) -> Case:
    openings: dict[str, Opening] = {
        EXCLUSIVE: partial(pairs.by_thread, url),
        READER: partial(pairs.by_reader, url),
        SLOT: partial(pairs.by_slot, url, SLOTS),
        **peers,
    }
    values = compare(openings, effort.batch // 2 + 1, effort.rounds // 2 + 1)
    targets: tuple[Target, ...] = (at_most(values, READER, EXCLUSIVE, MOST_OVER_EXCLUSIVE),)
    targets += tuple(faster(values, ours, peer) for ours, peer in contests if peer in peers)
    return Case(
        f"{engine}-reader",
        f"Uncontended readers and slots, {ENGINES[engine]}",
        "One uncontended pair by a thread, of a lock, of the readers' side of a read/write lock, "
        f"and of a semaphore of {SLOTS}.",
        EXCLUSIVE,
        rows(values, "µs", 1e6, EXCLUSIVE),
        targets,
    )


def measure_redis_semaphore(effort: Effort, folder: Path) -> Case:
    tasks = effort.contenders[-1]
    slots = min(SLOTS, tasks // 2)
    with RedisServer() as server:
        openings = {
            TOKENS: partial(semaphores.token_list, server.port, slots, tasks),
            OURS: partial(semaphores.by_tasks, server.url, slots, tasks),
            REDISSON: partial(semaphores.redisson, server.port, slots, tasks),
            RECIPE: partial(semaphores.sorted_sets, server.port, slots, tasks),
        }
        seconds = compare(openings, max(2, effort.batch // 20), max(3, effort.rounds // 5))
    values = {label: [1 / each for each in measured] for label, measured in seconds.items()}
    return Case(
        "redis-semaphore",
        f"{tasks} tasks and {slots} slots, sections of {semaphores.SECTION * 1000:g} ms, Redis",
        f"Each task takes a slot, works, gives it back and wants one again at once. *{TOKENS}* is "
        "the floor: BLPOP and RPUSH, without ttl; a slot whose holder dies is lost. "
        f"*{REDISSON}* has neither ttl nor order, either. *sorted sets* "
        'is the fair semaphore of "Redis in Action", which polls. pottery has no semaphore.',
        TOKENS,
        rows(values, "sections a second", 1, TOKENS),
        (at_least(values, OURS, RECIPE, 1.0), at_least(values, OURS, REDISSON, 0.8)),
    )


def measure_zookeeper_semaphore(effort: Effort, folder: Path) -> Case:
    threads = effort.contenders[-1]
    slots, times = min(SLOTS, threads // 2), 2
    server = servers.zookeeper()
    opened = {
        OURS: partial(semaphores.by_threads, server.url, slots),
        KAZOO_SLOT: partial(semaphores.kazoo, server.address, slots),
    }
    openings = {
        label: partial(in_threads, open_all, threads, times) for label, open_all in opened.items()
    }
    seconds = compare(openings, 1, max(3, effort.rounds // 10))
    values = {label: [threads * times / each for each in of] for label, of in seconds.items()}
    return Case(
        "zookeeper-semaphore",
        f"{threads} threads and {slots} slots, sections of {semaphores.SECTION * 1000:g} ms, "
        "ZooKeeper",
        "Each thread takes a slot, works, gives it back and wants one again at once. All threads "
        "of a kind have one client.",
        KAZOO_SLOT,
        rows(values, "sections a second", 1, KAZOO_SLOT),
        (at_least(values, OURS, KAZOO_SLOT, 1.0),),
    )
