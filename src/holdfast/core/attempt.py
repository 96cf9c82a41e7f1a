"""Ballots: the tries of one holder to get a lock of a quorum, told from each other.

A try that comes to nothing gives back what it got. That release may be late: on a connection that
was lost since, it may reach a node behind the next try, which went out on another. So each try has
a name of its own. The first has that of its holder, the nth after it is `holder#n`.

1. A node that still has an earlier ballot of the same holder gives its vote to the later one.
2. The release of a ballot undoes that one and those before it, and never a later one.
3. A release in the holder's own name undoes all of them.
"""

MARK = "#"
"""No holder id has it."""


def attempt_id(holder: str, tries: int) -> str:
    """The name in which a holder tries after so many tries.

    >>> ballot("me", 0), ballot("me", 2)
    ('me', 'me#2')
    """
    return f"{holder}{MARK}{tries}" if tries else holder


def undoing(holder: str, tries: int) -> str:
    """The name in which it lets go of that try, and of those before.

    >>> undoing("me", 0)
    'me#0'
    """
    return f"{holder}{MARK}{tries}"


def holder_of(name: str) -> str:
    """Whose ballot it is.

    >>> holder_of("me#2"), holder_of("me")
    ('me', 'me')
    """
    return name.partition(MARK)[0]
