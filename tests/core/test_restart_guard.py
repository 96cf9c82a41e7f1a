"""The restart guard: which nodes may vote, and from when on."""

from math import inf

import pytest

from holdfast.core.restart_guard import UPTIME_STEP, RestartGuard

LONGEST = 60.0


def may_vote_from(guard: RestartGuard, *meetings: tuple[str, float, bool, float]) -> float:
    """From when on a node may vote, after these meetings: (run, uptime, durable, now)."""
    for meeting in meetings:
        guard.met(*meeting)
    return guard.quarantined_until


def test_a_node_that_was_never_met_is_not_kept_from_voting_by_itself() -> None:
    assert RestartGuard(LONGEST).quarantined_until == -inf


@pytest.mark.parametrize(
    ("uptime", "until"),
    [
        (-1e6, 100.0 + LONGEST),  # its clock was set back: we have waited long enough all the same
        (0.0, 100.0 + LONGEST),
        (UPTIME_STEP + 2.0, 100.0 + LONGEST - 2.0),
        (LONGEST, 100.0 + UPTIME_STEP),  # in truth it may be up for almost a second less
        (LONGEST + UPTIME_STEP - 0.5, 100.5),
        (LONGEST + UPTIME_STEP, -inf),
        (1e6, -inf),
    ],
)
def test_a_new_acquaintance_must_have_been_up_for_longer_than_any_lease(
    uptime: float, until: float
) -> None:
    assert may_vote_from(RestartGuard(LONGEST), ("a", uptime, False, 100.0)) == until


def test_a_node_that_restarted_under_us_waits_on_our_own_clock() -> None:
    guard = RestartGuard(LONGEST)
    # Whatever uptime it says: its clock may have been set, and it may have been down for long.
    assert may_vote_from(guard, ("a", 1e6, False, 0.0), ("b", 1e6, False, 200.0)) == 260.0


def test_to_meet_the_same_run_again_changes_nothing() -> None:
    guard = RestartGuard(LONGEST)
    assert may_vote_from(guard, ("a", 1e6, False, 0.0), ("a", 1e6, False, 200.0)) == -inf
    assert may_vote_from(guard, ("b", 0.0, False, 300.0), ("b", 10.0, False, 310.0)) == 360.0


def test_every_further_restart_begins_it_anew() -> None:
    guard = RestartGuard(LONGEST)
    meetings = [("a", 1e6, False, 0.0), ("b", 0.0, False, 10.0), ("c", 0.0, False, 30.0)]
    assert may_vote_from(guard, *meetings) == 90.0
    guard = RestartGuard(LONGEST)
    assert may_vote_from(guard, ("a", 5.0, False, 0.0), ("b", 0.0, False, 10.0)) == 70.0


def test_one_that_writes_everything_down_forgets_nothing() -> None:
    guard = RestartGuard(LONGEST)
    assert may_vote_from(guard, ("a", 0.0, True, 0.0), ("b", 0.0, True, 10.0)) == -inf


def test_one_that_began_to_write_only_when_it_restarted_may_have_forgotten() -> None:
    guard = RestartGuard(LONGEST)
    assert may_vote_from(guard, ("a", 1e6, False, 0.0), ("b", 0.0, True, 10.0)) == 70.0


def test_one_that_has_ceased_to_write_may_have_forgotten() -> None:
    guard = RestartGuard(LONGEST)
    assert may_vote_from(guard, ("a", 0.0, True, 0.0), ("b", 0.0, False, 10.0)) == 70.0


def test_a_node_that_begins_to_write_in_quarantine_stays_there() -> None:
    guard = RestartGuard(LONGEST)
    meetings = [("a", 1e6, False, 0.0), ("b", 0.0, False, 10.0), ("b", 1.0, True, 11.0)]
    assert may_vote_from(guard, *meetings) == 70.0


def test_a_guard_that_is_off_keeps_nobody_out() -> None:
    guard = RestartGuard(LONGEST, on=False)
    assert may_vote_from(guard, ("a", 0.0, False, 0.0), ("b", 0.0, False, 10.0)) == -inf
