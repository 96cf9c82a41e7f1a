"""A user's own pool that has no connection to give, or lends one that is of no use any more."""

import pytest

import holdfast
from tests.engines.redis.party import Party
from tests.engines.sql.databases import Database
from tests.engines.sql.lenders import OF_EACH_WAY, OF_EACH_WAY_TO_POSTGRES, Lend
from tests.patience import wait_for

pytestmark = pytest.mark.slow

SHORT = 2.0
"""A ttl of leases that are renewed while a test watches."""


def test_acquiring(lend: Lend) -> None:
    user = lend(1)
    taken = user.take()
    with pytest.raises(holdfast.EngineUnavailable) as caught:
        user.party.tries(ttl=1.0)
    assert str(caught.value).startswith("'job' was not acquired")
    [why] = caught.value.nodes.values()
    assert why.startswith("the pool had no connection to give within")
    assert "make it larger" in why
    waiting = user.party.begin(user.client.lock("job").acquire, timeout=20)
    user.put(taken)
    user.party(waiting.result(20).release)


@OF_EACH_WAY
def test_renewing_and_releasing(lend: Lend, home: Database, rival: Party) -> None:
    """The only connection is the client's, and somebody else waits for it all the time."""
    user = lend(1)
    lease = user.party.takes(ttl=SHORT)
    wanting = user.begin_taking()
    first = home.end()
    wait_for(lambda: home.end() > first)
    user.party(lease.extend, 30)
    user.party(lease.release)
    assert rival.takes().held
    user.leave()
    user.put(user.has_taken(wanting))


def test_waiting(lend: Lend, rival: Party) -> None:
    """Nobody can listen, so one who waits asks again."""
    user = lend(1)
    theirs = rival.takes()
    waiting = user.party.begin(user.client.lock("job").acquire)
    user.settles_at(1)
    rival(theirs.release)
    user.party(waiting.result(20).release)


NOT_LISTENING = """
    SELECT pid FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
      AND application_name <> 'holdfast' AND query NOT LIKE 'LISTEN %%'
"""
"""Of a pool's sessions. Those of a client with connections of its own are named after us."""


@OF_EACH_WAY_TO_POSTGRES
def test_requests_go_before_listening(lend: Lend, home: Database, rival: Party) -> None:
    """Somebody else takes the place of the connection that was lost, so there is but one."""
    user = lend(2)
    ann, theirs = user.party, rival.takes("theirs")
    mine = ann.takes("mine", ttl=SHORT)
    waiting = ann.begin(user.client.lock("theirs").acquire)
    wait_for(lambda: rival(rival.client.inspect, "theirs").waiters == 1)
    wanting = user.begin_taking()
    wait_for(lambda: len(home.query(NOT_LISTENING)) == 1)  # those of a test before may linger
    [(number,)] = home.query(NOT_LISTENING)
    home.kill_session(number)
    taken = user.has_taken(wanting)
    ends = "SELECT extract(epoch FROM ends)::float8 FROM holdfast_leases WHERE name ~ 'mine'"
    [(first,)] = home.query(ends)
    wait_for(lambda: home.query(ends)[0][0] > first)
    assert mine.held
    rival(theirs.release)
    ann(waiting.result(20).release)
    user.put(taken)
