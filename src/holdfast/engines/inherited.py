"""What a forked child has of its parent's."""

import os


def detach(fd: int) -> None:
    """Put nothing in the place of a descriptor that a parent process goes on using: its number
    stays taken until its object is closed, so nothing else can be closed by mistake."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, fd)
    os.close(nothing)
