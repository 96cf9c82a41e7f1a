"""Which circuits may still owe an answer about a holder's lock."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.core.fanout import FanOut
from holdfast.core.messages import (
    DONE,
    NOT_YOURS,
    Acquire,
    Extend,
    Inspect,
    Release,
    Repair,
    ToNode,
)
from holdfast.engines.redis import LEAST_NODE_TIMEOUT
from holdfast.engines.redis.nodes import AT_WORK
from holdfast.engines.redis.owed import Owed
from holdfast.engines.redis.owing import Owing, holders_of
from holdfast.engines.redis.speech import Speech


def about(*requests: ToNode) -> Sequence[str]:
    return holders_of(FanOut(requests, range(3), 1.0))


def test_each_circuit_is_named_that_may_owe_something() -> None:
    """An acquire may be under way on one to one node, and tried again on another to the rest."""
    owing = Owing()
    owing.add(["ann"], "one")
    owing.add(["ann"], "two")
    owing.add(["ann"], "one")
    assert owing.elsewhere(about(Release("job", "ann")), "three") == ["one", "two"]
    owing.remove(["ann"], "one")
    assert owing.elsewhere(about(Release("job", "ann")), "three") == ["two"]
    owing.remove(["ann"], "two")
    assert owing.circuits == {}


def test_what_another_circuit_notes_meanwhile_is_not_taken_away() -> None:
    """Whoever notes the first thing about a holder does so without the mutex."""

    class Racing(dict[str, tuple[object, ...]]):
        def get(self, holder: str, default: Any = None) -> Any:
            found = super().get(holder, default)
            owing.add([holder], "one")  # just here, by another thread
            return found

    owing = Owing()
    owing.circuits = Racing()
    owing.remove(["ann"], "two")
    assert owing.circuits == {"ann": ("one",)}


def test_two_that_note_something_as_a_third_has_its_answer_are_both_noted() -> None:
    class Racing(dict[str, tuple[object, ...]]):
        looked = False

        def setdefault(self, holder: str, default: Any = None) -> Any:
            if not self.looked:  # the third is still there, and removed at once
                self.looked = True
                return ("three",)
            super().setdefault(holder, ("two",))  # just before, by another thread
            return super().setdefault(holder, default)

        def get(self, holder: str, default: Any = None) -> Any:
            found = super().get(holder, default)
            super().setdefault(holder, ("two",))  # just behind
            return found

    owing = Owing()
    owing.circuits = Racing()
    owing.add(["ann"], "one")
    assert owing.circuits == {"ann": ("two", "one")}


@pytest.mark.parametrize("trouble", [None, OSError])
def test_one_that_rests_hears_first_what_has_come_meanwhile(
    trouble: type[Exception] | None,
) -> None:
    """Nobody else would hear it, and whoever asks would wait for what was answered long ago."""
    owing, resting, at_work = Owing(), SimpleNamespace(), SimpleNamespace()

    def catch_up() -> None:
        assert owing.resting == [], "nobody else may use it meanwhile"
        owing.remove(["ann"], resting)
        if trouble:
            raise trouble

    resting.catch_up = catch_up
    owing.resting.append(resting)
    owing.add(["ann"], resting)
    owing.add(["ann"], at_work)
    with pytest.raises(trouble) if trouble else nullcontext():
        assert owing.elsewhere(about(Repair("job", "ann", 1.0, 7)), "another") == [at_work]
    assert owing.resting == [resting]


def test_what_others_owe_is_known_all_the_time() -> None:
    """Whoever looks does so without the mutex."""
    owing = Owing()
    seen: list[tuple[object, ...]] = []

    class Watched(dict[str, tuple[object, ...]]):
        def __setitem__(self, holder: str, circuits: tuple[object, ...]) -> None:
            super().__setitem__(holder, circuits)
            seen.append(self.get("ann", ()))

        def pop(self, holder: str, *default: Any) -> Any:
            gone = super().pop(holder, *default)
            seen.append(self.get("ann", ()))
            return gone

    owing.circuits = Watched(ann=("one", "two"))
    owing.remove(["ann"], "one")
    assert seen == [("two",)]


def test_a_signal_handler_may_close_while_somebody_notes_what_is_owed() -> None:
    owing = Owing()
    owing.add(["ann"], "one")

    def holders() -> Iterator[str]:
        owing.remove(["ben"], "one")  # as closing a circuit does
        yield "ann"

    owing.remove(holders(), "one")
    owing.add(holders(), "one")
    assert owing.circuits == {"ann": ("one",)}


def test_a_circuit_keeps_the_order_of_its_own_words() -> None:
    owing = Owing()
    owing.add(["ann"], "one")
    assert owing.elsewhere(about(Release("job", "ann")), "one") == []


def test_a_ballot_is_known_by_its_own_name_and_by_its_holders() -> None:
    """A lease that came of it is released in the one, and what it leaves behind in the other."""
    owing = Owing()
    owing.add(about(Acquire("job", "ann#2", 1.0)), "one")
    for name in ("ann#2", "ann"):
        assert owing.elsewhere(about(Release("job", name)), "two")[:1] == ["one"]
    owing.remove(["ann#2"], "one")
    assert owing.elsewhere(about(Release("job", "ann#3")), "two") == ["one"]


def test_other_holders_are_not_held_up() -> None:
    owing = Owing()
    owing.add(["ann"], "one")
    assert owing.elsewhere(about(Acquire("job", "ben", 1.0)), "two") == []


@pytest.mark.parametrize("request_", [Extend("job", "ann", 1.0), Inspect("job")])
def test_what_neither_makes_nor_ends_a_lock_is_not_held_up(request_: ToNode) -> None:
    owing = Owing()
    owing.add(["ann"], "one")
    assert owing.elsewhere(about(request_), "two") == []


def test_each_of_several_holders_counts() -> None:
    owing = Owing()
    owing.add(["ben"], "one")
    repairs = [Repair("job", name, 1.0, 7) for name in ("ann", "ben")]
    assert owing.elsewhere(about(*repairs), "two") == ["one"]


def test_a_node_that_let_its_time_pass_is_found_out_before_it_is_asked_again() -> None:
    """Else a silent minority would cost its time twice."""
    assert AT_WORK < LEAST_NODE_TIMEOUT


def test_what_two_threads_hear_of_one_release_is_not_mixed_up() -> None:
    """It may have gone out on another thread's connection."""
    release = Release("job", "ann")
    speech = Speech(quorum=True, keep=1.0, channel="c")
    said = Owed(speech.phrase((release,)), FanOut((release,), (0, 1), 1.0))

    class Mine:
        trouble = ""

        @property
        def index(self) -> int:
            """Just here, the other thread hears another node."""
            said.hear_number(SimpleNamespace(index=1, trouble=""), 0)  # type: ignore[arg-type]
            return 0

    said.hear_number(Mine(), 1)  # type: ignore[arg-type]
    assert (said.poll.said(0), said.poll.said(1)) == (DONE, NOT_YOURS)


class TestAdmitting:
    """Who is alone has nobody to note anything for."""

    def test_what_the_first_owes_is_noted_before_the_second_is_used(self) -> None:
        owing, noted = Owing(), []

        class Noting:
            def note_all(self) -> None:
                assert owing.noting, "else whoever stops listening just now would note nothing"
                noted.append(self)

        circuits = [Noting() for _ in range(3)]
        owing.admit(circuits[0])
        assert (owing.noting, noted) == (False, [])
        owing.admit(circuits[1])
        assert owing.noting
        assert noted == circuits[:2]
        owing.admit(circuits[2])  # the others have been doing so all the time
        assert noted == circuits[:2]
        assert owing.all == circuits

    def test_one_that_is_struck_has_the_next_one_do_it(self) -> None:
        owing, noted = Owing(), []

        class Noting:
            def note_all(self) -> None:
                noted.append(self)
                if len(noted) == 1:
                    raise KeyboardInterrupt

        owing.admit(Noting())
        with pytest.raises(KeyboardInterrupt):
            owing.admit(Noting())
        owing.admit(Noting())
        assert noted[1:] == owing.all

    def test_a_signal_handler_that_strikes_there_does_not_rely_on_it(self) -> None:
        """It cannot wait for what it has interrupted."""
        owing, noted = Owing(), []

        class Noting:
            def note_all(self) -> None:
                noted.append(self)
                if len(noted) == 1:
                    owing.admit(Noting())

        owing.admit(Noting())
        owing.admit(Noting())
        assert noted[1:4] == owing.all
