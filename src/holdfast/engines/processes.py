"""What may have been done to this process: it was forked, or its threads were replaced by gevent or
eventlet."""

import os
import sys


def detach(fd: int) -> None:
    """In a forked child: put nothing in the place of a descriptor that the parent goes on using.
    Its number stays taken until its object is closed, so nothing else can be closed by mistake."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, fd)
    os.close(nothing)


def gevent_is_patched() -> bool:
    """Whether `gevent.monkey.patch_all()` was called."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("threading"))


def refuse_eventlet(scheme: str, library: str) -> None:
    """Raise where `eventlet.monkey_patch()` was called, for a library that does not work then."""
    patcher = sys.modules.get("eventlet.patcher")
    if patcher is not None and patcher.is_monkey_patched("thread"):
        raise RuntimeError(
            f"{scheme}:// does not work under eventlet, since {library} does not; "
            "use gevent, or threads that are not monkey-patched, or another engine"
        )
