"""A process that has used up its descriptors."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def free_descriptors(number: int) -> Iterator[int]:
    """Meanwhile so many are left at the most; gives the next one that is free."""
    usual, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    first = os.dup(0)
    os.close(first)
    resource.setrlimit(resource.RLIMIT_NOFILE, (first + number, most))
    try:
        yield first
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (usual, most))
