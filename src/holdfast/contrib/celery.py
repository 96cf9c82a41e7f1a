"""Celery: tasks that run one at a time. For beat, see `celery_beat`.

>>> import celery, holdfast
>>> from holdfast.contrib.celery import single_instance
>>> app = celery.Celery("shop")
>>> client = holdfast.Client("memory://celery-example")

>>> @app.task
... @single_instance(client, "import:{supplier}")
... def import_catalogue(supplier: int) -> str:
...     return f"imported {supplier}"

>>> import_catalogue(7)
'imported 7'
>>> with client.lock("import:7"):
...     print(import_catalogue(7), import_catalogue(8))
None imported 8
>>> client.close()
"""

import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import celery

from holdfast.blocks import check_plain_function
from holdfast.client import Client

__all__ = ["single_instance"]

P = ParamSpec("P")
R = TypeVar("R")

logger = logging.getLogger("holdfast")


def single_instance(
    client: Client,
    name: str | Callable[..., str],
    *,
    timeout: float = 0.0,
    ttl: float | None = None,
    retry: float | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R | None]]:
    """Decorate the function of a task, below `@app.task`: it runs while it holds a lock.

    `name` is text, such as `"import:{supplier}"`, filled with the arguments of the task; or a
    function of them. If another task has the lock for longer than `timeout` seconds (default: do
    not wait), this one is skipped, and returns None; with `retry`, it is tried again after those
    seconds, as often as the task's `max_retries` allows. If the lease is lost, the task fails with
    `LockLost` when it ends.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R | None]:
        check_plain_function(function)
        signature = inspect.signature(function)

        def lock_name(*args: P.args, **kwargs: P.kwargs) -> str:
            if not isinstance(name, str):
                return name(*args, **kwargs)
            arguments = signature.bind(*args, **kwargs)
            arguments.apply_defaults()
            return name.format_map(arguments.arguments)

        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R | None:
            lock = client.lock(lock_name(*args, **kwargs), timeout=timeout, ttl=ttl)
            with lock.or_skip as lease:
                if lease is not None:
                    return function(*args, **kwargs)
            if retry is not None:
                task: Any = celery.current_task
                raise task.retry(countdown=retry)
            logger.info("%r is held by another task: this one is skipped", lock.name)
            return None

        run.__signature__ = signature  # type: ignore[attr-defined]  # Celery checks arguments by it
        return run

    return decorate
