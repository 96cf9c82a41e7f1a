"""Events in short. A hold begins with the name of its client: A1 is A's."""

from holdfast.lab.history import Event, Finding, History, Kind


def lease(
    hold: str,
    fence: int | None,
    since: float,
    until: float,
    *,
    asked: float | None = None,
    released: float | None = None,
    lost: float | None = None,
    name: str = "orders",
    shares: int | None = None,
) -> list[Event]:
    """The events of a lease; the hold begins with the name of its client."""
    who = hold[0]
    events = [
        Event(since if asked is None else asked, who, Kind.ASKED, name, hold),
        Event(since, who, Kind.GRANTED, name, hold, fence, until, shares=shares),
    ]
    if released is not None:
        events.append(Event(released, who, Kind.RELEASING, name, hold))
    if lost is not None:
        events.append(Event(lost, who, Kind.LOST, name, hold))
    return events


def extended(hold: str, at: float, until: float) -> list[Event]:
    return [Event(at, hold[0], Kind.EXTENDED, "orders", hold, until=until)]


def refused(hold: str, asked: float, at: float) -> list[Event]:
    who = hold[0]
    return [
        Event(asked, who, Kind.ASKED, "orders", hold),
        Event(at, who, Kind.REFUSED, "orders", hold, note="time out"),
    ]


def waits(hold: str, asked: float) -> list[Event]:
    return [Event(asked, hold[0], Kind.ASKED, "orders", hold)]


def wrote(hold: str, fence: int | None, at: float, register: str = "fenced") -> list[Event]:
    return [Event(at, hold[0], Kind.WROTE, register, hold, fence, note=f"by {hold}")]


def fault(at: float, who: str, kind: Kind) -> list[Event]:
    return [Event(at, who, kind)]


def history(*parts: list[Event]) -> History:
    return History(event for part in parts for event in part)


def texts(findings: list[Finding]) -> list[str]:
    return [finding.text for finding in findings]
