"""The name of each attempt of one holder to get a lock of a quorum.

An attempt that fails is released. That release may arrive late: on a lost connection, it may reach
a node behind the next attempt, which went out on another one. So each attempt has a name of its
own. The first has the holder's id, the nth after it is `holder#n`.

1. A node that has an earlier attempt of the same holder gives its vote to the later one.
2. The release of an attempt ends that one and those before it, never a later one.
3. A release in the holder's own name ends all of them.
"""

MARK = "#"
"""No holder id contains it."""


def attempt_id(holder: str, tries: int) -> str:
    """The name of a holder's attempt after `tries` others.

    >>> attempt_id("me", 0), attempt_id("me", 2)
    ('me', 'me#2')
    """
    return f"{holder}{MARK}{tries}" if tries else holder


def undoing(holder: str, tries: int) -> str:
    """The name that releases that attempt and those before it.

    >>> undoing("me", 0)
    'me#0'
    """
    return f"{holder}{MARK}{tries}"


def holder_of(name: str) -> str:
    """The holder of an attempt.

    >>> holder_of("me#2"), holder_of("me")
    ('me', 'me')
    """
    return name.partition(MARK)[0]
