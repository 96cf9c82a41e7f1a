"""Histories to draw: the classic failures, made up."""

from holdfast.lab.history import Event, Finding, History, Kind


def life(
    who: str, fence: int, asked: float, granted: float, until: float, released: float | None = None
) -> list[Event]:
    """One acquisition of `job`."""
    hold = f"{who}{fence}"
    events = [
        Event(asked, who, Kind.ASKED, "job", hold),
        Event(granted, who, Kind.GRANTED, "job", hold, fence, until),
    ]
    if released is not None:
        events.append(Event(released - 0.02, who, Kind.RELEASING, "job", hold))
        events.append(Event(released, who, Kind.RELEASED, "job", hold))
    return events


def vote(at: float, nodes: str, peer: str, until: float) -> list[Event]:
    """These nodes vote for a client."""
    return [Event(at, f"n{node}", Kind.NOTED, "job", until=until, peer=peer) for node in nodes]


def tiny() -> History:
    """Three events in ten milliseconds."""
    return History(
        [
            Event(0.001, "A", Kind.ASKED, "job", "a"),
            Event(0.004, "A", Kind.GRANTED, "job", "a", 7, 30.0),
            Event(0.011, "A", Kind.RELEASED, "job", "a"),
        ]
    )


def pause() -> tuple[History, list[Finding]]:
    """A holder is stopped past its ttl, wakes and writes."""
    events = [
        *life("A", 33, 0.2, 0.25, 3.0),
        Event(0.9, "A", Kind.WROTE, "plain", "A33", fence=33, note="a=1"),
        Event(0.9, "A", Kind.WROTE, "fenced", "A33", fence=33, note="a=1"),
        Event(1.25, "A", Kind.EXTENDED, "job", "A33", until=4.2),
        Event(1.9, "A", Kind.PAUSED),
        *life("B", 34, 1.0, 4.25, 9.0, 7.5),
        Event(5.0, "B", Kind.WROTE, "plain", "B34", fence=34, note="a=2"),
        Event(5.0, "B", Kind.WROTE, "fenced", "B34", fence=34, note="a=2"),
        Event(6.6, "A", Kind.RESUMED),
        Event(6.7, "A", Kind.WROTE, "plain", "A33", fence=33, note="a=1"),
        Event(6.7, "A", Kind.REJECTED, "fenced", "A33", fence=33),
        Event(6.75, "A", Kind.LOST, "job", "A33"),
    ]
    text = "plain took A's write, with fence 33, after B's, with fence 34: B's work is gone"
    return History(events), [Finding("no write is undone", text, 6.7, 7.5, ("plain",))]


def amnesia() -> tuple[History, list[Finding]]:
    """A node of a quorum restarts empty, and votes twice."""
    events = [
        *(Event(0.0, f"n{node}", Kind.STARTED) for node in range(1, 6)),
        *life("A", 1760000000123456, 0.1, 0.12, 5.0, 4.0),
        *vote(0.11, "123", "A", 5.1),
        Event(1.2, "n3", Kind.CRASHED),
        Event(1.8, "n3", Kind.STARTED, note="empty"),
        *life("B", 1760000000129999, 0.6, 2.4, 7.0, 5.6),
        *vote(2.38, "345", "B", 7.1),
    ]
    text = "A and B both believed that they had job: n3 had lost its vote for A"
    return History(events), [Finding("two holders at once", text, 2.4, 3.98, ("A", "B"))]


def partition() -> tuple[History, list[Finding]]:
    """A holder is cut off from the majority, and another client takes over."""
    events = [*life("ann", 7, 0.0, 0.02, 2.7), *vote(0.01, "12345", "ann", 2.8)]
    for node in ("n3", "n4", "n5"):
        events += [
            Event(1.0, "ann", Kind.CUT, peer=node),
            Event(1.001, node, Kind.CUT, peer="ann"),
            Event(4.5, "ann", Kind.HEALED, peer=node),
            Event(4.501, node, Kind.HEALED, peer="ann"),
        ]
    events += [
        Event(2.7, "ann", Kind.LOST, "job", "ann7", note="no quorum answered"),
        Event(1.1, "cyd", Kind.ASKED, "job", "c"),
        Event(2.1, "cyd", Kind.REFUSED, "job", "c", note="timeout"),
        *life("ben", 8, 1.5, 2.91, 4.8, 4.2),
        *vote(2.9, "345", "ben", 4.9),
        Event(3.0, "n2", Kind.PAUSED),
        Event(3.6, "n2", Kind.RESUMED),
        Event(3.3, "n1", Kind.CUT, peer="ben"),
        Event(3.5, "ben", Kind.JUMPED, note="+3 s"),
        Event(4.6, "", Kind.HEALED),
        Event(4.7, "cyd", Kind.NOTED, note="goes home"),
    ]
    return History(events), []


def crowd(holds: int = 1600) -> tuple[History, list[Finding]]:
    """More than can be drawn one by one."""
    events = []
    for number in range(holds):
        who, at = f"c{number % 4}", number * 0.05
        events += life(who, number + 1, at, at + 0.01, at + 9.0, at + 0.04)
        events.append(Event(at + 0.015, who, Kind.WROTE, "reg", fence=number + 1, note="x"))
        if number % 50 == 0:
            events.append(Event(at, "n1", Kind.CRASHED))
            events.append(Event(at + 0.5, "n1", Kind.STARTED, note="empty"))
    found = [Finding("two holders at once", f"number {n}", n, n + 0.01) for n in range(60)]
    return History(events), found
