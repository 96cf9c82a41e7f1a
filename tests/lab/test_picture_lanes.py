"""What pictures make of a history, before anything is drawn."""

import pytest

from holdfast.lab.history import Event, History, Kind
from holdfast.lab.pictures.chart import Axis
from holdfast.lab.pictures.lanes import Look, Role, lanes_of
from holdfast.lab.pictures.sentences import Facts
from tests.lab.picture_samples import life, vote


@pytest.mark.parametrize(
    ("since", "until", "numbers"),
    [
        (0.0, 0.01, "0.000 0.002 0.004 0.006 0.008 0.010"),
        (12.0, 12.05, "12.00 12.01 12.02 12.03 12.04 12.05"),
        (0.0, 1.0, "0.0 0.2 0.4 0.6 0.8 1.0"),
        (0.3, 7.0, "2 4 6"),
        (0.0, 60.0, "0 10 20 30 40 50 60"),
        (3500.0, 9500.0, "4000 5000 6000 7000 8000 9000"),
    ],
)
def test_the_axis_counts_as_people_do(since: float, until: float, numbers: str) -> None:
    axis = Axis(since, until, width=62)
    assert " ".join(number for _, number in axis.ticks()) == numbers


def test_a_cut_is_shown_where_messages_are_sent() -> None:
    history = History(
        [
            Event(0.0, "a", Kind.CUT, peer="n1"),
            Event(0.001, "n1", Kind.CUT, peer="a"),
            Event(0.002, "a", Kind.CUT, peer="n2, n3"),
            Event(5.0, "a", Kind.HEALED, peer="n2, n3"),
            Event(6.0, "b", Kind.CUT, peer="n1"),
            Event(8.99, "n1", Kind.HEALED, peer="a"),
            Event(9.0, "", Kind.HEALED),
        ]
    )
    found = [
        (lane.name, span.labels[0], span.since, span.until)
        for lane in lanes_of(history)
        for span in lane.spans
    ]
    assert sorted(found) == [
        ("a", "does not reach n1", 0.0, 9.0),
        ("a", "does not reach n2, n3", 0.002, 5.0),
        ("b", "does not reach n1", 6.0, 9.0),
        ("n1", "does not reach a", 0.001, 8.99),
    ]


def test_who_is_killed_while_it_is_paused_is_down() -> None:
    kinds = (Kind.PAUSED, Kind.CRASHED, Kind.STARTED, Kind.PAUSED)
    history = History(Event(float(at), "n1", kind) for at, kind in enumerate(kinds))
    spans = [(kind, since, until) for _, kind, _, since, until in history.outages()]
    assert spans == [
        (Kind.PAUSED, 0.0, 1.0),
        (Kind.CRASHED, 1.0, 2.0),
        (Kind.PAUSED, 3.0, float("inf")),
    ]


def test_a_vote_ends_with_a_crash_or_with_the_next_one() -> None:
    votes = [*vote(0.0, "123", "A", 9.0), *vote(2.0, "2", "B", 9.0)]
    history = History([*votes, Event(1.0, "n1", Kind.CRASHED)])
    found = {
        lane.name: [(span.since, span.until) for span in lane.spans if span.look is Look.VOTE]
        for lane in lanes_of(history)
        if lane.role is Role.NODE
    }
    assert found["n1"] == [(0.0, 1.0)]
    assert found["n2"] == [(0.0, 2.0), (2.0, 9.0)]
    assert found["n3"] == [(0.0, 9.0)]


def test_who_waits_waits_until_it_dies() -> None:
    asked = [Event(0.0, who, Kind.ASKED, "job", who) for who in "AB"]
    lanes = lanes_of(History([*asked, Event(2.0, "A", Kind.CRASHED)]))
    waits = [span.until for lane in lanes for span in lane.spans if span.look is Look.WAITING]
    assert waits == [2.0, float("inf")]


def test_lanes_are_in_order_clients_first() -> None:
    events = [Event(0.0, who, Kind.STARTED) for who in ("n3", "x")]
    events.append(Event(0.0, "A", Kind.CUT, peer="n3, n2"))
    lanes = lanes_of(History([*events, *life("B", 1, 0, 1, 2), *life("A", 2, 0, 1, 2)]))
    assert [lane.name for lane in lanes] == ["A", "B", "n2", "n3", "x"]
    assert [lane.tint for lane in lanes] == [0, 1, None, None, None]


def test_fences_are_labelled_by_their_order() -> None:
    fences = (1760000000123999, 1760000000123456, None, 1760000000123456)
    events = [Event(at, "A", Kind.GRANTED, fence=fence) for at, fence in enumerate(fences)]
    assert Facts(History(events)).fences == {1760000000123456: "#1", 1760000000123999: "#2"}
