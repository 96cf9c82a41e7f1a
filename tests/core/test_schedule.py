"""When the renewer must look at which lease."""

import gc
from math import inf
from random import Random

from holdfast.core.lease_state import LeaseState
from holdfast.core.schedule import CROWD, SWEEP_ABOVE, Schedule
from tests.core.hand import spec


def tenure(renew_at: float, until: float = 1000.0) -> LeaseState:
    made = LeaseState(spec(), "me", 1, until, inf)
    made.renew_at = renew_at
    return made


def put(schedule: Schedule, *instants: float) -> list[LeaseState]:
    made = [tenure(at) for at in instants]
    for each in made:
        schedule.enter(each)
        schedule.settle()
    return made


def test_it_is_due_when_it_must_be_renewed_or_ends_whichever_comes_first() -> None:
    schedule = Schedule()
    assert schedule.fall_asleep() == inf
    kept = [tenure(inf, until=30.0), tenure(20.0, until=30.0)]
    schedule.enter(kept[0])
    assert schedule.fall_asleep() == 30.0
    schedule.enter(kept[1])
    assert schedule.fall_asleep() == 20.0


def test_what_is_due_comes_in_order_at_its_instant_and_not_before() -> None:
    schedule = Schedule()
    instants = Random(1).sample(range(100), 50)
    made = put(schedule, *map(float, instants))
    assert schedule.due(min(instants) - 0.5, 100) == []
    for now in (float(min(instants)), 40.0, 99.0):
        expected = sorted((each for each in made if each.renew_at <= now), key=lambda t: t.renew_at)
        assert schedule.due(now, 100) == expected
        made = [each for each in made if each not in expected]
    assert schedule.fall_asleep() == inf


def test_the_renewer_is_roused_for_what_comes_before_it_means_to_look() -> None:
    schedule = Schedule()
    schedule.asleep_until = 50.0
    kept = [tenure(49.0), tenure(50.0), tenure(51.0)]
    assert [schedule.enter(each) for each in kept] == [True, False, False]


def test_whoever_enters_while_the_renewer_falls_asleep_is_seen_or_rouses_it() -> None:
    late = tenure(5.0)

    class Slow(Schedule):
        roused = False

        def settle(self) -> None:
            super().settle()
            if self.asleep_until == inf and not self.entered:
                self.roused = self.enter(late)

    schedule = Slow()
    schedule.asleep_until = -inf
    [kept] = put(schedule, 50.0)
    assert schedule.fall_asleep() == kept.renew_at
    assert schedule.roused


def test_who_entered_and_left_again_is_slept_for_once() -> None:
    """Or each who enters would have to rouse a renewer that has nothing to do."""
    schedule = Schedule()
    over = tenure(5.0)
    assert schedule.enter(over)
    over.mark_released()
    assert schedule.fall_asleep() == 5.0
    for number in range(3 * CROWD):
        over = tenure(6.0 + number)
        assert not schedule.enter(over)
        over.mark_released()
    assert len(schedule.entered) > CROWD
    assert schedule.fall_asleep() == 5.0
    assert len(schedule._heap) == 1
    assert schedule.due(5.0, 100) == []


def test_more_than_the_limit_stays_for_the_next_look() -> None:
    schedule = Schedule()
    made = put(schedule, 5.0, 7.0, 7.0, 7.0, 9.0)
    assert schedule.due(10.0, 2) == made[:2]
    assert schedule.fall_asleep() == 7.0
    assert schedule.due(10.0, 2) == made[2:4]
    assert schedule.due(10.0, 2) == made[4:]
    assert schedule.due(10.0, 2) == []


def test_what_is_in_hand_is_put_back_once_at_its_new_instant() -> None:
    schedule = Schedule()
    first, second, over = put(schedule, 5.0, 5.0, 5.0)
    assert schedule.due(5.0, 100) == [first, second, over]
    first.renew_at = 8.0
    over.mark_released()
    assert list(schedule.held()) == [first, second], "it is there while it is in hand"
    for _ in range(2):
        schedule.put_back()
        assert sorted(each.renew_at for each in schedule.held()) == [5.0, 8.0]


def test_what_is_over_or_out_of_reach_does_not_come_up() -> None:
    schedule = Schedule()
    made = put(schedule, *[5.0] * 4)
    made[0].mark_released()
    made[1].lose("for a reason")
    del made[2]
    gc.collect()
    assert list(schedule.held()) == [made[2]]
    assert schedule.due(5.0, 100) == [made[2]]


def test_the_first_deadline_is_the_least_of_those_that_are_held() -> None:
    schedule = Schedule()
    assert schedule.first_deadline() == inf
    kept = [tenure(5.0, until=until) for until in (40.0, 30.0, 20.0)]
    for each in kept:
        schedule.enter(each)
    kept[2].mark_released()
    assert schedule.first_deadline() == 30.0
    schedule.due(5.0, 100)
    assert schedule.first_deadline() == 30.0, "in hand or not"


def test_somebody_to_be_told_is_due_at_once() -> None:
    schedule = Schedule()
    [lost] = put(schedule, 5.0)
    schedule.lost(lost)
    assert schedule.fall_asleep() == -inf
    schedule.unnotified.clear()
    assert schedule.fall_asleep() == 5.0


def test_a_sweep_keeps_what_is_held_and_nothing_else() -> None:
    schedule = Schedule()
    made = put(schedule, *(float(number // 2) for number in range(SWEEP_ABOVE)))
    for each in made[::3]:
        each.mark_released()
    held = [each for each in made if each.is_held(0.0)]
    made += put(schedule, 500.0)
    assert schedule._size == len(held) + 1
    assert len(schedule._heap) == len(schedule._due_at)
    assert schedule.due(499.0, 1000) == held
    assert schedule.due(500.0, 1000) == made[-1:]


def test_it_is_swept_when_it_has_doubled_and_not_each_time() -> None:
    schedule = Schedule()
    sweeps = 0
    before = schedule._due_at
    kept = []
    for number in range(20 * SWEEP_ABOVE):
        kept += put(schedule, float(number))
        sweeps += schedule._due_at is not before
        before = schedule._due_at
    assert 3 <= sweeps <= 6


def test_it_never_holds_much_more_than_is_held() -> None:
    schedule = Schedule()
    for number in range(20 * SWEEP_ABOVE):
        [over] = put(schedule, float(number))
        over.mark_released()
        assert schedule._size <= SWEEP_ABOVE + 1
        assert len(schedule._heap) <= SWEEP_ABOVE + 1


def test_it_does_not_count_what_has_been_taken_out() -> None:
    schedule = Schedule()
    for number in range(10):
        made = put(schedule, *[float(number)] * SWEEP_ABOVE)
        assert schedule.due(float(number), 1000) == made
        assert schedule._size == 0


def test_cleared_it_knows_of_nothing() -> None:
    schedule = Schedule()
    made = put(schedule, 5.0, 6.0)
    schedule.due(5.0, 100)
    schedule.lost(made[1])
    schedule.asleep_until = 3.0
    schedule.clear()
    assert schedule._size == 0
    assert list(schedule.held()) == []
    assert schedule.fall_asleep() == inf
    schedule.put_back()
    assert schedule.fall_asleep() == inf
    assert schedule.enter(made[0]), "another renewer must be roused"
