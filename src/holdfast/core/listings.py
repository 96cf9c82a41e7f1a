"""Which locks are held, given what each node of a quorum reports."""

from collections import Counter
from collections.abc import Sequence

from holdfast.core.messages import Seen


def agreed_on(
    listings: Sequence[tuple[Seen, ...]], quorum: int, *, up_to: str = ""
) -> tuple[Seen, ...]:
    """The locks for which a quorum of nodes report the same holder, in order; `up_to`: the last key
    to look at (default: all)."""
    reports: dict[tuple[str, str], list[Seen]] = {}
    for leases in listings:
        for seen in leases:
            if not up_to or seen.key <= up_to:
                reports.setdefault((seen.key, seen.holder), []).append(seen)
    return tuple(
        Seen(
            key,
            holder,
            _fence([seen.fence for seen in found], quorum),
            sorted((seen.remaining for seen in found), reverse=True)[quorum - 1],
            None,
        )
        for (key, holder), found in sorted(reports.items(), key=lambda item: item[0])
        if len(found) >= quorum
    )


def _fence(counters: Sequence[int], quorum: int) -> int:
    """The fence of a lock, from the counters beside it. A node that was repaired, or granted late,
    may have another counter: a rival may have raised it while the lock was not there."""
    fence, nodes = Counter(counters).most_common(1)[0]
    return fence if nodes >= quorum else max(counters)
