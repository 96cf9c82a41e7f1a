"""Many want one lock on Redis all the time: how much gets done, who waits, and at what cost?"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import (
    Case,
    Effort,
    Target,
    Values,
    Waits,
    at_least,
    figure_at_most,
    figures,
    interleave,
    percentile,
    rows,
    worth_counting,
)
from benchmarks.redis.contest import (
    KINDS,
    OURS,
    QUEUE,
    SENT,
    SIGNALLED,
    Granted,
    Order,
    contend_in_tasks,
    contend_in_threads,
    put_token,
)
from benchmarks.workers import Worker
from holdfast.drivers.common import clock
from holdfast.lab.servers.redis import RedisServer

SECTION = 0.001
ROUNDS = 3
MARGIN = 0.1
LEAST_OF_QUEUE = 0.8
MOST_P99_OVER_MEDIAN = 1.5
MOST_COMMANDS = 4.0
MOST_INEQUALITY = 1.2


class Result(NamedTuple):
    """What became of one contest."""

    seconds: float
    waits: Waits
    commands: int
    """That clients have sent."""
    client_cpu: float
    server_cpu: float

    @property
    def sections(self) -> int:
        return sum(map(len, self.waits))


def measure_processes(effort: Effort, folder: Path, size: int) -> Case:
    count = effort.contenders[size]
    promised = size == len(effort.contenders) - 1
    jobs = [(contend_in_threads, 1)] * count
    return _measure(f"redis-contention-{count}", f"{count} processes", jobs, effort, promised)


def measure_threads(effort: Effort, folder: Path) -> Case:
    count = effort.contenders[-1]
    jobs = [(contend_in_threads, count)]
    return _measure("redis-contention-threads", f"{count} threads of one client", jobs, effort)


def measure_tasks(effort: Effort, folder: Path) -> Case:
    count = effort.contenders[-1]
    jobs = [(contend_in_tasks, count)]
    remark = f" {SIGNALLED} has no asyncio: it runs in threads, one for each task."
    return _measure(
        "redis-contention-tasks", f"{count} tasks of one client", jobs, effort, remark=remark
    )


def _measure(
    name: str,
    who: str,
    jobs: list[tuple[Callable[..., None], int]],
    effort: Effort,
    promised: bool = False,
    remark: str = "",
) -> Case:
    # Whether shares are fair cannot be seen where each has only a few.
    seconds = effort.window * (0.8 if promised else 0.3)
    with ExitStack() as stack:
        server = stack.enter_context(RedisServer(options=("--maxclients", "10000")))
        put_token(server)
        workers = [
            stack.enter_context(Worker(job, server.url, server.port, inside))
            for job, inside in jobs
        ]
        for worker in workers:
            worker.answer()

        def contest(kind: str) -> Result:
            held = partial(_contest, server, workers, kind, seconds)
            return worth_counting(held, lambda result: result.sections)

        results = interleave({kind: partial(contest, kind) for kind in KINDS}, ROUNDS)
    values = figures(results, lambda result: result.sections / seconds)
    return Case(
        name,
        f"{who}, sections of {SECTION * 1000:g} ms, Redis",
        f"Each acquires the lock, holds it, releases it and wants it again at once; {ROUNDS} "
        f"rounds of {seconds:g} s. *{QUEUE}* is the floor: a token in a list, taken by BLPOP, "
        "confirmed by one more round trip, and put back by LPUSH. Commands are those that clients "
        "send, not those that scripts call. CPU is that of all contenders, and of the server."
        + remark,
        QUEUE,
        rows(values, "sections a second", 1, QUEUE)
        + rows(figures(results, _p50), "ms wait, median", 1e3, QUEUE)
        + rows(figures(results, _p99), "ms wait, p99", 1e3, QUEUE)
        + rows(figures(results, _commands), "commands a section", 1, QUEUE)
        + rows(figures(results, _inequality), "times the smallest share, the greatest", 1, QUEUE)
        + rows(figures(results, _client_cpu), "µs CPU of clients a section", 1e6, QUEUE)
        + rows(figures(results, _server_cpu), "µs CPU of the server a section", 1e6, QUEUE),
        _targets(values, results) if promised else (),
    )


def _targets(values: Values, results: dict[str, list[Result]]) -> tuple[Target, ...]:
    ours = results[OURS]
    return (
        at_least(values, OURS, QUEUE, LEAST_OF_QUEUE),
        figure_at_most(
            f"the p99 of waiting at most {MOST_P99_OVER_MEDIAN:g} times the median",
            [_p99(result) / _p50(result) for result in ours],
            MOST_P99_OVER_MEDIAN,
            "times",
        ),
        figure_at_most(
            f"at most {MOST_COMMANDS:g} commands a section",
            list(map(_commands, ours)),
            MOST_COMMANDS,
            "commands",
        ),
        figure_at_most(
            f"the greatest share at most {MOST_INEQUALITY:g} times the smallest",
            list(map(_inequality, ours)),
            MOST_INEQUALITY,
            "times",
        ),
    )


def _contest(server: RedisServer, workers: list[Worker], kind: str, seconds: float) -> Result:
    sent, cpu = _sent(server, kind), _cpu(server)
    begin = clock() + MARGIN
    for worker in workers:
        worker.tell(Order(kind, begin, begin + seconds, SECTION))
    waits: Waits = []
    client_cpu = 0.0
    everything = 0
    for worker in workers:
        granted, used = worker.answer()
        client_cpu += used
        waits += [_within(each, seconds) for each in granted]
        everything += sum(map(len, granted))
    # What was under way at the end of the time is paid for too: so count by all there was.
    part = sum(map(len, waits)) / max(everything, 1)
    return Result(
        seconds,
        waits,
        round((_sent(server, kind) - sent) * part),
        client_cpu * part,
        (_cpu(server) - cpu) * part,
    )


def _within(granted: Granted, seconds: float) -> list[float]:
    return [wait for after, wait in granted if after < seconds]


def _sent(server: RedisServer, kind: str) -> int:
    """How many commands clients of this kind have sent."""
    counted = server.info("commandstats")
    return sum(calls(counted, name) for name in SENT[kind])


def calls(counted: Mapping[str, str], name: str) -> int:
    """How often a command was called, of `INFO commandstats`."""
    fields = counted.get(f"cmdstat_{name}", "calls=0")
    return int(dict(field.split("=") for field in fields.split(","))["calls"])


def _cpu(server: RedisServer) -> float:
    used = server.info("cpu")
    return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])


def _p50(result: Result) -> float:
    return percentile(result.waits, 50)


def _p99(result: Result) -> float:
    return percentile(result.waits, 99)


def _commands(result: Result) -> float:
    return result.commands / result.sections


def _inequality(result: Result) -> float:
    shares = list(map(len, result.waits))
    return max(shares) / max(min(shares), 1)


def _client_cpu(result: Result) -> float:
    return result.client_cpu / result.sections


def _server_cpu(result: Result) -> float:
    return result.server_cpu / result.sections
