"""The steps of an exchange one by one, where no real server would stop between two of them."""

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.core.messages import NOT_YOURS, Extend
from holdfast.engines.zookeeper.commands import Tree
from holdfast.engines.zookeeper.locks import Locks
from holdfast.engines.zookeeper.registry import Registry


def test_a_lease_that_is_being_released_is_not_moved_to_another_session() -> None:
    """Its release deletes the place that it knows, and would leave the new one behind."""
    longer: Any = SimpleNamespace(ttl=60.0, id=2)
    sessions: Any = SimpleNamespace(of=lambda ttl: longer)
    registry = Registry(lambda holder: None)
    locks = Locks(Tree("/"), sessions, registry, lambda: 0.0, Random(1))
    shorter: Any = SimpleNamespace(ttl=10.0, id=1)
    claim = registry.open("job", "ann", shorter)
    assert claim is not None
    steps = locks.lengthen(Extend("job", "ann", 60.0, 7), claim, 0.0)
    next(steps)  # the longer session is being connected
    claim.pending_release = True
    with pytest.raises(StopIteration) as end:
        steps.send([])
    assert end.value.value == [NOT_YOURS]
    assert claim.move is None
