"""The registers of the counting clients."""

from tests.equipment.counting.trial import Register


def test_a_plain_register_loses_what_is_counted_late() -> None:
    register = Register(fenced=False)
    assert register.read(1) == 0
    assert register.read(2) == 0
    assert register.write(1, 2)
    assert register.write(1, 1)
    assert (register.taken, register.value, register.lost) == (2, 1, 1)


def test_a_fenced_one_takes_nothing_that_is_late() -> None:
    register = Register(fenced=True)
    assert register.read(1) == 0
    assert register.read(2) == 0
    assert not register.write(1, 1), "the second has read already, and is about to write"
    assert register.write(1, 2)
    assert register.read(1) is None
    assert (register.taken, register.refused, register.lost) == (1, 1, 0)


def test_waiting_for_a_count() -> None:
    register = Register(fenced=False)
    assert not register.wait_for(1, 0.001)
    register.write(1, 1)
    assert register.wait_for(1, 0.001)
