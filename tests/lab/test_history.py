from math import inf

from holdfast.lab.history import Event, History, Hold, Kind

ASKED, GRANTED, EXTENDED = Kind.ASKED, Kind.GRANTED, Kind.EXTENDED
RELEASING, RELEASED, LOST, REFUSED = Kind.RELEASING, Kind.RELEASED, Kind.LOST, Kind.REFUSED


def event(
    at: float, kind: Kind, hold: str = "A1", *, fence: int | None = 7, until: float = inf
) -> Event:
    return Event(at, hold[0], kind, "orders", hold, fence, until)


def only_hold(*events: Event) -> Hold:
    (hold,) = History(events).holds()
    return hold


def test_an_event_is_added_in_its_place_behind_its_equals() -> None:
    history = History([event(1, ASKED), event(3, GRANTED)])
    history.add(event(1, ASKED, "B1"))
    assert [(each.at, each.hold) for each in history] == [(1, "A1"), (1, "B1"), (3, "A1")]
    assert len(history) == 3
    assert history.end == 3


def test_nothing_happened() -> None:
    assert History().holds() == []
    assert History().leases() == {}
    assert History().end == 0


def test_a_hold_ends_when_it_is_let_go_of_or_lost_or_too_late() -> None:
    begins = [event(0, ASKED), event(1, GRANTED, until=9)]
    assert only_hold(*begins).ended == 9
    assert only_hold(*begins, event(3, RELEASING), event(4, RELEASED)).ended == 3
    assert only_hold(*begins, event(4, RELEASED)).ended == 4
    assert only_hold(*begins, event(2, LOST), event(3, RELEASING)).ended == 2
    assert only_hold(*begins, event(2, REFUSED)).ended == 2


def test_who_was_refused_was_never_granted_it() -> None:
    hold = only_hold(event(0, ASKED), event(2, REFUSED))
    assert (hold.answered, hold.granted, hold.spans) == (2, None, [])


def test_a_grant_without_its_asking_is_a_hold() -> None:
    hold = only_hold(event(1, GRANTED, until=9))
    assert (hold.asked, hold.granted, hold.fence) == (1, 1, 7)


def test_asking_again_changes_nothing() -> None:
    hold = only_hold(event(0, ASKED), event(1, ASKED), event(2, GRANTED), event(3, GRANTED))
    assert (hold.asked, hold.granted) == (0, 2)


def test_what_is_not_of_a_hold_makes_none() -> None:
    assert History([Event(1, "A", Kind.WROTE, "register", "A1", 7)]).holds() == []


def test_an_extension_moves_the_end() -> None:
    hold = only_hold(event(1, GRANTED, until=5), event(4, EXTENDED, until=8))
    assert hold.spans == [(1, 8)]
    assert only_hold(event(1, GRANTED, until=5), event(4, EXTENDED, until=4.5)).spans == [(1, 4.5)]


def test_an_extension_that_came_too_late_leaves_a_hole() -> None:
    hold = only_hold(event(1, GRANTED, until=5), event(6, EXTENDED, until=8), event(7, LOST))
    assert hold.spans == [(1, 5), (6, 7)]


def test_what_was_granted_too_late_has_no_span() -> None:
    assert only_hold(event(0, ASKED), event(6, GRANTED, until=5)).spans == []


def test_an_extension_after_the_end_changes_nothing() -> None:
    hold = only_hold(event(1, GRANTED, until=5), event(2, RELEASING), event(3, EXTENDED, until=9))
    assert hold.spans == [(1, 2)]


def test_the_same_fence_again_is_another_lease() -> None:
    again = [event(1, GRANTED, until=9), event(3, RELEASING), event(3, GRANTED, "A2", until=9)]
    assert len(History(again).leases()["orders"]) == 2
    elsewhere = [event(1, GRANTED, until=9), event(2, GRANTED, "B1", until=9)]
    assert len(History(elsewhere).leases()["orders"]) == 2
