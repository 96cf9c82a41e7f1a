"""The exit codes of the command line, after sysexits.h and the shells."""

FREE = 1
"""`show`, `break`: nobody holds the lock (or the operator said no)."""

USAGE = 64
"""The command line, a name, a URL or a time makes no sense."""

UNAVAILABLE = 69
"""The engine could not be asked."""

LOST = 70
"""The lease was lost, or about to be, and the command was stopped for it."""

CONFLICT = 75
"""Somebody else holds the lock."""

NOT_EXECUTABLE = 126
NOT_FOUND = 127

_SIGNAL_BASE = 128


def of_signal(signum: int) -> int:
    """What a shell reports for a process that `signum` ended."""
    return _SIGNAL_BASE + signum
