"""The steps of an exchange one by one, where no real server would stop between two of them."""

from types import SimpleNamespace

import pytest

from holdfast.core.messages import NOT_YOURS, Acquire, Extend, Failed, Release
from holdfast.core.ports import StoreHost
from holdfast.engines.etcd.locks import Locks
from holdfast.engines.etcd.sessions import Claim, Registry
from holdfast.engines.etcd.waiters import Watches

NO_KEYS = SimpleNamespace(keys=())
HOST = StoreHost(lambda: 0.0, lambda holder: None, lambda event: None)


@pytest.fixture
def registry() -> Registry:
    return Registry(HOST, {})


@pytest.fixture
def locks(registry: Registry) -> Locks:
    return Locks(registry, Watches(HOST.notify), HOST)


@pytest.fixture
def claim(registry: Registry) -> Claim:
    claim = registry.claim(Acquire("door", "ben", 4.0), 4)
    claim.ends_at, claim.session.granted = 4.0, True
    return claim


def test_a_release_is_not_confirmed_while_another_one_may_fail(locks: Locks, claim: Claim) -> None:
    """After an interruption, the caller and the background task release at the same time."""
    releases = [Release("door", "ben")]
    first = locks.release(releases)
    next(first)
    with pytest.raises(StopIteration) as end:
        next(locks.release(releases))
    [answer] = end.value.value
    assert isinstance(answer, Failed)
    first.close()  # its connection was lost
    assert next(locks.release(releases)), "the claim is still there"


@pytest.mark.parametrize("moves", [False, True])
def test_a_renewal_during_a_move_to_another_session_is_no_loss(
    registry: Registry, locks: Locks, claim: Claim, moves: bool
) -> None:
    renewing = locks.extend([Extend("door", "ben", 4, 7)], 1)
    next(renewing)
    renewing.send([4])
    if moves:
        registry.move(claim, registry.session_for(claim, 60))
    with pytest.raises(StopIteration) as end:
        renewing.send([NO_KEYS])
    [answer] = end.value.value
    assert isinstance(answer, Failed) if moves else answer == NOT_YOURS
