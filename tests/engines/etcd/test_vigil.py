"""Watches: whatever ends one, its waiter is woken."""

from typing import Any

from holdfast.engines.etcd.protocol import _messages
from holdfast.engines.etcd.vigil import Vigil


class Party:
    """A vigil, who was called, who was woken, and what was said."""

    def __init__(self) -> None:
        self.called: list[str] = []
        self.rung: list[str] = []
        self.said: list[Any] = []
        self.vigil = Vigil(self.called.append, self.rung.append)
        self.say = self.said.append

    def hears(self, **words: Any) -> bool:
        return self.vigil.hear(_messages["WatchResponse"](**words))

    def watched(self) -> list[bytes]:
        return [each.create_request.key for each in self.said if each.HasField("create_request")]


def test_a_deletion_calls_the_one_behind_and_nobody_else() -> None:
    party = Party()
    party.vigil.opened(party.say)
    party.vigil.watch("ben", b"ann", 7)
    party.vigil.watch("cleo", b"ben", 8)
    assert [each.create_request.start_revision for each in party.said] == [7, 8]
    party.hears(watch_id=1, created=True)
    party.hears(watch_id=1, events=[{"type": 0}])
    assert party.called == []
    party.hears(watch_id=1, events=[{"type": 1}])
    assert (party.called, party.rung) == (["ben"], [])
    party.hears(watch_id=1, events=[{"type": 1}])
    assert party.called == ["ben"], "once"


def test_a_watch_that_is_cancelled_wakes_its_waiter() -> None:
    party = Party()
    party.vigil.opened(party.say)
    party.vigil.watch("ben", b"ann", 7)
    assert party.hears(watch_id=1, canceled=True, compact_revision=9), "the stream is good"
    assert (party.called, party.rung) == ([], ["ben"])


def test_a_stream_on_which_a_watch_is_refused_is_of_no_use() -> None:
    party = Party()
    party.vigil.opened(party.say)
    party.vigil.watch("ben", b"ann", 7)
    assert not party.hears(watch_id=1, created=True, canceled=True, cancel_reason="denied")
    assert party.rung == ["ben"]


def test_a_stream_that_is_lost_wakes_everybody() -> None:
    party = Party()
    party.vigil.opened(party.say)
    party.vigil.watch("ben", b"ann", 7)
    party.vigil.watch("cleo", b"ben", 8)
    party.vigil.closed(party.say)
    assert party.rung == ["ben", "cleo"]
    party.vigil.closed(party.say)
    assert party.rung == ["ben", "cleo"]


def test_what_is_to_be_watched_before_there_is_a_stream() -> None:
    party = Party()
    party.vigil.watch("ben", b"ann", 7)
    assert party.said == []
    party.vigil.opened(party.say)
    assert party.watched() == [b"ann"]


def test_who_waits_no_more_is_not_woken() -> None:
    party = Party()
    party.vigil.opened(party.say)
    party.vigil.watch("ben", b"ann", 7)
    party.vigil.watch("ben", b"ann", 9)
    assert party.watched() == [b"ann"], "it is watched already"
    party.vigil.end("ben")
    assert party.said[-1].cancel_request.watch_id == 1
    party.hears(watch_id=1, canceled=True)
    party.vigil.closed(party.say)
    assert (party.called, party.rung) == ([], [])


def test_the_end_of_an_old_stream_is_no_matter_when_there_is_a_new_one() -> None:
    party = Party()
    party.vigil.opened(party.say)
    party.vigil.watch("ben", b"ann", 7)
    later: list[Any] = []
    party.vigil.opened(later.append)
    assert len(later) == 1
    party.vigil.closed(party.say)
    assert party.rung == []
    party.hears(watch_id=1, events=[{"type": 1}])
    assert party.called == ["ben"]
