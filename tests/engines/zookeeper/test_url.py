"""URLs of ZooKeeper: what is refused before anything is sent."""

import pytest

import holdfast
from tests.patience import wait_for


def test_an_error_says_that_a_name_cannot_be_resolved() -> None:
    with holdfast.Client("zookeeper://no-such-host.invalid") as client:

        def is_told() -> bool:
            with pytest.raises(holdfast.EngineUnavailable) as caught:
                client.lock("job").acquire(timeout=0.1)
            return "name can be resolved" in str(caught.value)

        wait_for(is_told)  # the resolver may take its time
