"""The steps of an exchange one by one, where no real server would stop between two of them."""

from types import SimpleNamespace

import pytest

from holdfast.core.messages import NOT_YOURS, Acquire, Extend, Failed
from holdfast.core.ports import StoreHost
from holdfast.engines.etcd.locks import Locks
from holdfast.engines.etcd.sessions import Registry
from holdfast.engines.etcd.waiters import Watches

NO_KEYS = SimpleNamespace(keys=())


@pytest.mark.parametrize("moves", [False, True])
def test_a_renewal_during_a_move_to_another_session_is_no_loss(moves: bool) -> None:
    host = StoreHost(lambda: 0.0, lambda holder: None, lambda event: None)
    registry = Registry(host, {})
    claim = registry.claim(Acquire("door", "ben", 4.0), 4)
    claim.ends_at, claim.session.granted = 4.0, True
    renewing = Locks(registry, Watches(host.notify), host).extend([Extend("door", "ben", 4, 7)], 1)
    next(renewing)
    renewing.send([4])
    if moves:
        registry.move(claim, registry.session_for(claim, 60))
    with pytest.raises(StopIteration) as end:
        renewing.send([NO_KEYS])
    [answer] = end.value.value
    assert isinstance(answer, Failed) if moves else answer == NOT_YOURS
