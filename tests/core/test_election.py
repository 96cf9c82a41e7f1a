"""Elections, step by step: what comes between winning and publishing, and between two reads."""

from typing import Any

import pytest

from holdfast.core.effects import Sleep
from holdfast.core.election import campaign, leader, next_leader, read_record, write_record
from holdfast.core.messages import CHANGED, DONE, Granted, Listing, Read, Seen, Write
from holdfast.core.records import Leader, Versioned
from holdfast.errors import EngineUnavailable, LockLost
from tests.core.hand import BROKEN, NOW, TTL, Hand, Play, spec

CELL = "election:x"
ANN = Leader("ann", 7, "me")
BEN = Leader("ben", 8, "ben")


def cell(record: Leader | None, version: int = 1) -> Versioned:
    return Versioned(None, 0) if record is None else Versioned(write_record(record), version)


def lock(record: Leader | None, **more: Any) -> Listing:
    if record is None:
        return Listing(())
    return Listing((Seen("p:x", record.holder, record.term, 1.0, None, **more),))


def wins(hand: Hand) -> Play:
    """The lock is granted, with fence 7; nothing is published yet."""
    steps = campaign(hand.runtime, spec(name="x"), "me", None, CELL, "ann")
    return hand.play(steps).hears(Granted(7))


def asks(play: Play) -> Any:
    [request] = play.effect.requests
    return request


def gives_none(play: Play) -> bool:
    return play.effect is play.result is play.error is None


class TestCampaign:
    def test_the_record_is_written_before_it_ends(self) -> None:
        play = wins(Hand())
        assert asks(play) == Read("p:" + CELL)
        play.hears(cell(None))
        assert asks(play) == Write("p:" + CELL, write_record(ANN), 0)
        assert play.hears(DONE).result.fence == 7

    def test_one_that_is_overtaken_between_read_and_write_never_overwrites(self) -> None:
        hand = Hand()
        play = wins(hand).hears(cell(None)).hears(CHANGED)
        assert isinstance(play.effect, Sleep)
        play.goes_on().hears(cell(BEN))
        assert isinstance(play.error, LockLost)
        assert [each.holder for each in hand.pending] == ["me"], "what it had is released"
        assert hand.runtime.registry.held() == []

    def test_a_lost_reply_is_asked_again(self) -> None:
        play = wins(Hand()).hears(cell(None)).hears(BROKEN).goes_on().hears(cell(ANN, 5))
        assert asks(play) == Write("p:" + CELL, write_record(ANN), 5)
        assert play.hears(DONE).result.fence == 7

    def test_cells_that_stay_unreachable(self) -> None:
        hand = Hand()
        play = wins(hand).hears(BROKEN)
        hand.now = NOW + TTL / 2
        play.goes_on().hears(BROKEN)
        [lease] = hand.runtime.registry.held()
        lease.valid_until = NOW + 3 * TTL  # it was renewed meanwhile
        hand.now = NOW + TTL
        play.goes_on().hears(BROKEN)
        assert isinstance(play.error, EngineUnavailable)
        assert [each.holder for each in hand.pending] == ["me"]

    def test_a_lease_that_is_lost_before_the_record_is_written(self) -> None:
        hand = Hand()
        play = wins(hand).hears(BROKEN)
        hand.now = NOW + 2 * TTL
        assert isinstance(play.goes_on().error, LockLost)

    def test_an_interruption_before_the_record_is_written(self) -> None:
        hand = Hand()
        play = wins(hand).interrupt(KeyboardInterrupt())
        assert isinstance(play.error, KeyboardInterrupt)
        assert [each.holder for each in hand.pending] == ["me"]

    def test_without_cells_nothing_is_written(self) -> None:
        hand = Hand()
        steps = campaign(hand.runtime, spec(name="x"), "me", None, None, "")
        assert hand.play(steps).hears(Granted(7)).result.fence == 7


class TestLeader:
    def begins(self, cell: str | None = CELL) -> Play:
        hand = Hand()
        return hand.play(leader(hand.runtime, spec(name="x"), cell))

    def test_the_record_of_the_holder(self) -> None:
        assert self.begins().hears(lock(ANN)).hears(cell(ANN)).result == ANN

    @pytest.mark.parametrize("record", [None, ANN], ids=["none", "of an earlier term"])
    def test_a_holder_that_has_not_published(self, record: Leader | None) -> None:
        play = self.begins().hears(lock(BEN)).hears(cell(record))
        assert gives_none(play)

    def test_a_term_is_not_taken_for_another_holders(self) -> None:
        """As after a store has lost its counters."""
        other = Leader("eve", 7, "eve")
        play = self.begins().hears(lock(ANN)).hears(cell(other)).hears(lock(ANN)).hears(cell(other))
        assert gives_none(play)

    def test_a_change_between_the_reads(self) -> None:
        play = self.begins().hears(lock(ANN)).hears(cell(BEN))
        assert play.hears(lock(BEN)).hears(cell(BEN)).result == BEN

    def test_readers_do_not_lead(self) -> None:
        assert gives_none(self.begins().hears(lock(ANN, shares=0)))

    def test_without_cells_the_holder_leads(self) -> None:
        assert self.begins(None).hears(lock(BEN)).result == Leader("", 8, "ben")


class TestNextLeader:
    def begins(self, hand: Hand) -> Play:
        return hand.play(next_leader(hand.runtime, spec(name="x"), CELL, None))

    def test_it_asks_until_something_changes(self) -> None:
        play = self.begins(Hand()).hears(lock(None))
        assert isinstance(play.effect, Sleep)
        assert play.goes_on().hears(lock(ANN)).hears(cell(ANN)).result == ANN

    def test_an_engine_that_fails_for_one_ttl(self) -> None:
        hand = Hand()
        play = self.begins(hand).hears(BROKEN).hears(BROKEN)  # each look is repeated once
        hand.now = NOW + TTL - 1
        play.goes_on().hears(lock(None))  # it has answered: the time begins anew
        hand.now = NOW + TTL
        play.goes_on().hears(BROKEN).hears(BROKEN)
        hand.now = NOW + 2 * TTL
        assert isinstance(play.goes_on().hears(BROKEN).hears(BROKEN).error, EngineUnavailable)


def test_what_is_no_record() -> None:
    assert read_record(CELL, None) is None
    for content in ("x", b"\xff", "[]", "7", "{}", '{"value": "", "term": true, "holder": ""}'):
        with pytest.raises(ValueError, match=CELL):
            read_record(CELL, content)
