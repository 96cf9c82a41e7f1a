"""Watches: whatever ends one, its waiter is woken."""

import itertools
from contextlib import suppress
from typing import Any

import pytest

from holdfast.engines.etcd import waiters
from holdfast.engines.etcd.protocol import messages
from holdfast.engines.etcd.waiters import Watches
from tests.contract.interrupting import Interruption


class Party:
    """Watches, who was woken, and what was sent. Ben waits for Ann."""

    def __init__(self) -> None:
        self.woken: list[str] = []
        self.sent: list[Any] = []
        self.watches = Watches(self.woken.append)
        self.send = self.sent.append
        self.watches.opened(self.send)
        self.watches.watch("ben", [b"ann"], 7)

    def receives(self, **fields: Any) -> bool:
        return self.watches.received(messages["WatchResponse"](**fields))


@pytest.fixture
def party() -> Party:
    return Party()


def test_a_deletion_wakes_the_next_waiter_and_no_other(party: Party) -> None:
    party.watches.watch("cleo", [b"ben"], 8)
    assert [each.create_request.start_revision for each in party.sent] == [7, 8]
    party.receives(watch_id=1, created=True)
    party.receives(watch_id=1, events=[{"type": 0}])
    assert party.woken == []
    party.receives(watch_id=1, events=[{"type": 1}])
    assert party.woken == ["ben"]
    party.receives(watch_id=1, events=[{"type": 1}])
    assert party.woken == ["ben"], "once"


def test_a_watch_that_is_cancelled_wakes_its_waiter(party: Party) -> None:
    assert party.receives(watch_id=1, canceled=True, compact_revision=9), "the stream is good"
    assert party.woken == ["ben"]


def test_a_stream_on_which_a_watch_is_refused_is_of_no_use(party: Party) -> None:
    assert not party.receives(watch_id=1, created=True, canceled=True, cancel_reason="denied")
    assert party.woken == ["ben"]


def test_a_server_need_not_name_the_watch_that_it_refuses(party: Party) -> None:
    """As etcd 3.4.23 does. When the stream is dropped, all waiters are woken."""
    assert not party.receives(watch_id=-1, created=True, canceled=True, cancel_reason="denied")
    party.watches.closed(party.send)
    assert party.woken == ["ben"]


def test_a_stream_that_is_lost_wakes_everybody(party: Party) -> None:
    party.watches.watch("cleo", [b"ben"], 8)
    party.watches.closed(party.send)
    assert party.woken == ["ben", "cleo"]
    party.watches.closed(party.send)
    assert party.woken == ["ben", "cleo"]


def test_what_is_to_be_watched_before_there_is_a_stream() -> None:
    sent: list[Any] = []
    watches = Watches(lambda holder: None)
    watches.watch("ben", [b"ann"], 7)
    watches.opened(sent.append)
    assert [each.create_request.key for each in sent] == [b"ann"]


def test_who_waits_no_more_is_not_woken(party: Party) -> None:
    party.watches.watch("ben", [b"ann"], 9)
    assert len(party.sent) == 1, "it is watched already"
    party.watches.end("ben")
    assert party.sent[-1].cancel_request.watch_id == 1
    party.receives(watch_id=1, canceled=True)
    party.watches.closed(party.send)
    assert party.woken == []


def test_an_interrupted_end_can_be_made_up_for() -> None:
    """A Ctrl-C may come between any two lines; what is left is ended by the next request."""
    for line in itertools.count():
        party = Party()
        interruption = Interruption(line, (waiters.__file__,), functions=("_end",))
        with suppress(KeyboardInterrupt), interruption:
            party.watches.end("ben")
        party.watches.end("ben")
        assert party.sent[-1].cancel_request.watch_id == 1
        party.watches.closed(party.send)
        assert party.woken == [], interruption.where
        if not interruption.happened:
            break
    assert line > 2


def test_the_end_of_an_old_stream_is_no_matter_when_there_is_a_new_one(party: Party) -> None:
    later: list[Any] = []
    party.watches.opened(later.append)
    assert len(later) == 1
    party.watches.closed(party.send)
    assert party.woken == []
    party.receives(watch_id=1, events=[{"type": 1}])
    assert party.woken == ["ben"]
