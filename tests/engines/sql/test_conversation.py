"""What both stores say to an SQL server, and what they make of its errors. No server is needed."""

from collections.abc import Generator, Sequence
from typing import Any

import pytest

from holdfast.core.messages import (
    DONE,
    Acquire,
    Answer,
    Extend,
    Failed,
    Granted,
    Inspect,
    Release,
    Request,
    Write,
)
from holdfast.engines.sql.conversation import Pause, converse
from holdfast.engines.sql.links import (
    BrokenError,
    ConflictError,
    MissingError,
    RefusedError,
    Row,
    SqlError,
)

TAKE, GIVE = Acquire("job", "ann", 30.0), Release("job", "ann")


class Plain:
    """A dialect in which a request is its own statement."""

    node = "db"
    ddl = "CREATE TABLE t ()"

    def answer(self, request: Request, until: float) -> Generator[Any, list[Row], Answer]:
        rows = yield request
        if isinstance(request, Release):
            yield "hand on"
        return Granted(rows[0][0]) if isinstance(request, Acquire) else DONE

    def extend_all(self, requests: Sequence[Extend]) -> Generator[Any, list[Row], list[Answer]]:
        yield "extend all"
        return [DONE for _ in requests]

    def create(self) -> Generator[Any, list[Row], None]:
        yield "create"


class Talk:
    """Performs a conversation; each statement meets the next of these outcomes."""

    def __init__(self, *outcomes: list[Row] | SqlError) -> None:
        self._outcomes = list(outcomes)
        self.said: list[Any] = []
        self.now = 0.0

    def __call__(self, *requests: Request, until: float = 5.0) -> list[Answer]:
        steps = converse(Plain(), requests, until, lambda: self.now)
        try:
            step = next(steps)
            while True:
                if isinstance(step, Pause):
                    self.now += step.seconds
                    step = steps.send([])
                    continue
                self.said.append(step)
                outcome = self._outcomes.pop(0)
                step = (
                    steps.throw(outcome) if isinstance(outcome, SqlError) else steps.send(outcome)
                )
        except StopIteration as stop:
            found: list[Answer] = stop.value
            return found


def why(answers: Sequence[Answer]) -> str:
    assert isinstance(answers[0], Failed)
    return str(answers[0])


def test_a_conflict_is_met_by_saying_it_again() -> None:
    talk = Talk(ConflictError("deadlock"), ConflictError("deadlock"), [(7,)])
    assert talk(TAKE) == [Granted(7)]
    assert talk.said == [TAKE] * 3
    assert talk.now > 0, "after a pause"


def test_only_the_statement_that_met_a_conflict_is_said_again() -> None:
    """The release itself was done: said again, it would find nothing to give back."""
    talk = Talk([(1,)], ConflictError("deadlock"), [])
    assert talk(GIVE) == [DONE]
    assert talk.said == [GIVE, "hand on", "hand on"]


def test_a_conflict_that_does_not_end_is_given_up_in_time() -> None:
    talk = Talk(*[ConflictError("deadlock")] * 1000)
    assert "deadlock" in why(talk(TAKE, until=0.1))
    assert 0.1 <= talk.now < 0.2


@pytest.mark.parametrize("request_", [TAKE, Extend("job", "ann", 30.0), Inspect("job")])
def test_what_is_harmless_is_asked_once_more_when_a_connection_breaks(request_: Request) -> None:
    talk = Talk(BrokenError("gone"), [(7,)])
    assert not isinstance(talk(request_)[0], Failed)
    assert "gone" in why(Talk(BrokenError("gone"), BrokenError("gone"))(request_))


@pytest.mark.parametrize("request_", [GIVE, Write("cell", b"1", 0)])
def test_what_may_have_been_done_is_not_done_again(request_: Request) -> None:
    assert "gone" in why(Talk(BrokenError("gone"))(request_))


def test_a_missing_table_is_made_and_the_statement_said_again() -> None:
    talk = Talk(MissingError("no table"), [], [(7,)])
    assert talk(TAKE) == [Granted(7)]
    assert talk.said == [TAKE, "create", TAKE]


def test_two_who_make_the_table_at_once() -> None:
    talk = Talk(MissingError("no table"), ConflictError("exists"), [], [(7,)])
    assert talk(TAKE) == [Granted(7)]
    assert talk.said == [TAKE, "create", "create", TAKE]


def test_a_table_that_may_not_be_made() -> None:
    text = why(Talk(MissingError("no table"), RefusedError("denied"))(TAKE))
    assert "may not make it (denied)" in text
    assert Plain.ddl in text


def test_a_table_that_is_missing_after_it_was_made() -> None:
    assert "no table" in why(Talk(MissingError("no table"), [], MissingError("no table"))(TAKE))


def test_a_refusal_is_the_answer() -> None:
    talk = Talk(RefusedError("no"))
    assert "no" in why(talk(TAKE))
    assert talk.said == [TAKE]


def test_one_failure_among_many_is_one() -> None:
    talk = Talk([(1,)], [], BrokenError("gone"), [(1,)], [])
    assert [type(answer) for answer in talk(GIVE, GIVE, GIVE)] == [type(DONE), Failed, type(DONE)]


def test_extensions_go_together_and_fail_together() -> None:
    many = [Extend(f"job {n}", "ann", 30.0) for n in range(3)]
    talk = Talk([])
    assert talk(*many) == [DONE] * 3
    assert talk.said == ["extend all"]
    failed = Talk(RefusedError("no"))(*many)
    assert len(failed) == 3
    assert all(isinstance(answer, Failed) for answer in failed)
