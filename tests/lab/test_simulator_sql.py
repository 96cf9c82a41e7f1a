"""The simulator over a virtual PostgreSQL: promises are kept, and planted bugs are found."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from holdfast.engines.sql.dialect import Results, Statement, Text
from holdfast.engines.sql.waiters import LONGEST_LIFE
from holdfast.lab.history import Kind
from holdfast.lab.simulator import Plan, Setup, draw, play
from holdfast.lab.simulator.faults import Cancel, Cut, Fault, Freeze, Jump, Kill, Pause, Refuse
from holdfast.lab.simulator.plan import Section, Task
from holdfast.lab.simulator.record import Mark, When
from holdfast.lab.simulator.run import Simulation
from holdfast.lab.simulator.sql.server import STATEMENTS, Database

SQL = Setup(engine="sql")

WORKS = Section(0.0, "job", None, 1.0, True, None, 2.2)


def plan(*faults: Fault) -> Plan:
    """Two clients want a lock, and only this goes wrong."""
    tasks = Task(0, (WORKS,)), Task(1, (WORKS,))
    return replace(draw(0, replace(SQL, clients=2)), tasks=tasks, faults=faults, tail=0.0)


EXTENDED_LATE = plan(Freeze(When(Mark.SENT_EXTEND), (0,), 1.5))
SET_BACK = plan(Kill(When(Mark.GRANTED), 0), Jump(When(Mark.GRANTED), 0, -60.0))


def plant(patch: pytest.MonkeyPatch, name: str, before: str, after: str) -> None:
    """Change one statement of the engine."""
    text = getattr(STATEMENTS.dialect, name)
    assert text.sql.count(before) == 1
    planted = Text("", "numeric_dollar")
    planted.names, planted.sql = text.names, text.sql.replace(before, after)
    changes: Any = {name: planted}
    patch.setattr(STATEMENTS, "dialect", replace(STATEMENTS.dialect, **changes))


def labels(*plans: int | Plan) -> set[str]:
    """What is found in these runs, or in those of these seeds."""
    drawn = (draw(each, SQL) if isinstance(each, int) else each for each in plans)
    return {finding.label for each in drawn for finding in play(each).findings}


def test_a_few_runs_keep_every_promise() -> None:
    grants = 0
    for each in (*(draw(seed, SQL) for seed in range(16)), EXTENDED_LATE, SET_BACK):
        run = play(each)
        assert run.findings == (), each.seed
        grants += run.grants
    assert grants > 100


def test_what_is_from_before_the_clock_was_set_back_is_not_left_behind() -> None:
    """The server refuses the release for as long as the lost lease may last. The row would last for
    longer, since the clock was set back; the next client adopts it."""
    held = Section(0.0, "job", None, 1.0, False, None, 2.2)
    turns = (held, replace(held, renew=True, work=0.0), held)
    faults = (
        Jump(When(Mark.RELEASED, 1, 0.3, 0), 0, -91.0),
        Refuse(When(Mark.DEADLINE, 3), (0,), error=43, share=1.0, lasting=2.1),
    )
    plan = draw(1, replace(SQL, clients=2))
    run = play(replace(plan, max_ttl=2.0, tasks=(Task(0, turns),), faults=faults, tail=0.0))
    assert run.findings == ()
    assert run.faults == {"Jump": 1, "Refuse": 1}


def test_what_was_offered_to_a_client_that_is_stopped_for_a_ttl_is_not_left_behind() -> None:
    """Client 1 is behind a pooler. It is cancelled while it polls, and stopped until its release is
    given up; meanwhile it is offered the lock, for longer than its ttl."""
    waits = Section(0.005, "job", None, 0.5, True, None, 0.0)
    works = replace(waits, rest=0.0, work=0.3)
    polls = When(Mark.SENT_ACQUIRE, 4, 0.0, 1)
    faults = (
        Cut(polls, 1, (0,), 0.5, to=True, back=False),
        Cancel(polls, 1),
        Pause(polls, 1, 1.1, timers_first=False),
    )
    plan = replace(draw(0, replace(SQL, clients=2)), max_ttl=2.0, tail=0.0, faults=faults)
    run = play(replace(plan, tasks=(Task(1, (waits,)), Task(0, (works,)))))
    assert run.findings == ()
    assert run.faults == {"Cut": 1, "Cancel": 1, "Pause": 1}


@pytest.mark.parametrize("nth", [3, 4])
def test_an_interrupted_request_keeps_every_promise(nth: int) -> None:
    """The client closes its connection: what comes next does not get the reply."""
    turns = (Section(0.0, "job", 2.0, 1.0, True, None, 0.01),) * 4
    tasks = (Task(0, turns), Task(0, turns))
    cancel = Cancel(When(Mark.SENT_ACQUIRE, nth, 0.0002, 0), 0)
    stage = Simulation(replace(draw(0, SQL), tasks=tasks, faults=(cancel,), tail=0.0))
    assert stage.play().findings == ()
    assert stage.clients[0].store.connections[0].breaks == 1


def test_the_first_acquire_of_a_client_is_one_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a deadline by the server's clock, which the client learns when it connects."""
    sent: list[Text] = []
    run = Database.run

    def noting(database: Database, statements: Sequence[Statement], pid: int) -> Results:
        sent.extend(text for text, _ in statements)
        return run(database, statements, pid)

    monkeypatch.setattr(Database, "run", noting)
    task = Task(0, (Section(0.0, "job", 0.0, 1.0, True, None, 0.0),))
    run_of_it = play(replace(draw(0, SQL), tasks=(task,), faults=(), tail=0.0))
    assert run_of_it.findings == ()
    granted = run_of_it.history.of(Kind.GRANTED)
    assert sent.count(STATEMENTS.dialect.acquire) == len(granted) == 2  # the other one: the probe


def test_an_expired_lease_that_is_extended_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    now = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"
    plant(monkeypatch, "extend", f"AND NOT offered AND expires > {now}", "AND NOT offered")
    assert "internal error" in labels(EXTENDED_LATE)


def test_a_lease_that_a_clock_lengthens_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "adopt", "+ ttl OR holder", "+ 1000000000 OR holder")
    assert "client stuck" in labels(SET_BACK)


def test_a_takeover_without_a_new_fence_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "acquire", "ELSE greatest(fence + 1,", "ELSE least(fence,")
    assert "fence not greater than before" in labels(0, 1)


def test_a_waiter_that_stays_in_the_queue_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "leave", "WHERE holder", "WHERE false AND holder")
    assert "lock left behind" in labels(0, 1)


def test_a_clock_that_is_set_back_does_not_keep_the_turn_of_a_dead_waiter_that_polled() -> None:
    """Client 1 is behind a pooler. It dies in the queue, and is offered the lock all the same: for
    no longer than any waiter may be silent."""
    works = Section(0.0, "job", None, 2.0, True, None, 1.0)
    tasks = tuple(Task(client, (replace(works, rest=0.2 * client),)) for client in range(3))
    set_back, kill = (When(Mark.START, 1, at) for at in (0.5, 0.52))
    faults = (Jump(set_back, 0, -9.0), Kill(kill, 1))
    run = play(replace(draw(0, replace(SQL, clients=3)), tasks=tasks, faults=faults, tail=0.0))
    [granted] = [each for each in run.history.of(Kind.GRANTED) if each.who == "c2"]
    [released] = [each for each in run.history.of(Kind.RELEASED) if each.who == "c0"]
    assert granted.at - released.at < LONGEST_LIFE + 0.2
