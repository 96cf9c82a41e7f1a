"""Forked children of a test."""

import os
import warnings
from collections.abc import Callable


def in_child(work: Callable[[], object]) -> None:
    """Run something in a forked child; what it raises is a failure here."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that we have threads: so we must
        child = os.fork()
    if child == 0:
        try:
            work()
            os.write(write, b"fine")
        except BaseException as error:
            os.write(write, repr(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read) as pipe:
        assert pipe.read() == "fine"
    os.waitpid(child, 0)
