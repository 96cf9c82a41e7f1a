"""The floors that databases are measured against, and how a hand-off is measured. No server."""

import pytest

from benchmarks.contenders import TTL
from benchmarks.relay import Hold, Result
from benchmarks.sql.words import KEY, Words, mariadb_lease, postgres_lease
from holdfast.core.messages import Acquire, Release
from holdfast.engines.sql.clock import ServerClock
from holdfast.engines.sql.conversation import Speech
from holdfast.engines.sql.mysql import speech as mysql
from holdfast.engines.sql.mysql import statements as mysql_statements
from holdfast.engines.sql.mysql.line import Line
from holdfast.engines.sql.postgres import speech as postgres
from holdfast.engines.sql.postgres import statements as postgres_statements

HOLDER = "host/1/program/secret"


def speech_of_postgres() -> Speech:
    statements = postgres_statements.Statements(postgres_statements.LEASES)
    return postgres.Speech("node", statements, ServerClock(lambda: 0.0))


def speech_of_mariadb() -> Speech:
    statements = mysql_statements.Statements(mysql_statements.LEASES, returns=True)
    line = Line(lambda holder: None)
    return mysql.Speech("node", statements, ServerClock(lambda: 0.0), line)


@pytest.mark.parametrize(
    ("speech", "words"),
    [(speech_of_postgres(), postgres_lease()), (speech_of_mariadb(), mariadb_lease())],
    ids=["postgres", "mariadb"],
)
def test_the_floor_says_what_holdfast_says(speech: Speech, words: Words) -> None:
    acquire, taking = next(speech.answer(Acquire(KEY, HOLDER, TTL), 0.0))
    sql, values = words.acquire(HOLDER)
    assert sql.replace("%s", "?") == acquire.sql.decode()
    # But for the deadline, which is another one each time.
    differ = [n for n, pair in enumerate(zip(values, taking, strict=True)) if pair[0] != pair[1]]
    assert len(differ) == 1
    release, giving = next(speech.answer(Release(KEY, HOLDER), 0.0))
    sql, values = words.release(HOLDER)
    assert sql.replace("%s", "?") == release.sql.decode()
    assert list(values) == list(giving)


def test_a_gap_is_from_a_release_until_the_next_one_has_the_lock() -> None:
    holds = [Hold(10.0, 11.0), Hold(11.5, 12.0), Hold(12.25, 13.0), Hold(15.0, 16.0)]
    assert Result(holds, 0).gap == 0.5
