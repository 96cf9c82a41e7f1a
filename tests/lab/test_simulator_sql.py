"""The simulator over a virtual PostgreSQL: promises are kept, and planted bugs are found."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

from holdfast.cli.lab.simulate import simulate
from holdfast.engines.sql.commands import Text
from holdfast.lab.simulator import Setup, draw, play
from holdfast.lab.simulator.sql.database import STATEMENTS

SQL = Setup(engine="sql")


def plant(patch: pytest.MonkeyPatch, name: str, before: str, after: str) -> None:
    """Change one statement of the engine."""
    text = getattr(STATEMENTS.dialect, name)
    assert text.sql.count(before) == 1
    planted = Text("", "$")
    planted.names, planted.sql = text.names, text.sql.replace(before, after)
    patch.setattr(STATEMENTS, "dialect", replace(STATEMENTS.dialect, **{name: planted}))


def labels(*seeds: int) -> set[str]:
    return {finding.label for seed in seeds for finding in play(draw(seed, SQL)).findings}


def test_a_few_runs_keep_every_promise() -> None:
    grants = 0
    for seed in range(30):
        run = play(draw(seed, SQL))
        assert run.findings == (), seed
        grants += run.grants
    assert grants > 200


def test_the_same_seed_is_the_same_run() -> None:
    first, second = (play(draw(7, SQL)) for _ in range(2))
    assert list(first.history) == list(second.history)


def test_a_takeover_without_a_new_fence_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "acquire", "ELSE greatest(fence + 1,", "ELSE least(fence,")
    assert "fence not greater than before" in labels(0, 1)


def test_a_waiter_that_stays_in_the_queue_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "leave", "WHERE holder", "WHERE false AND holder")
    assert "lock left behind" in labels(0, 1)


def test_the_command_line_plays_it() -> None:
    done = CliRunner().invoke(simulate, ["--engine", "sql", "--seeds", "3", "--jobs", "1"])
    assert done.exit_code == 0, done.output
    assert "every promise was kept" in done.output
