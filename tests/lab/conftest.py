import pytest

from holdfast.lab.servers.process import find_redis
from tests.equipment.servers.redis import find_valkey


@pytest.fixture(params=["redis", "valkey"])
def program(request: pytest.FixtureRequest) -> str:
    """That of a server, of either kind."""
    return find_redis() if request.param == "redis" else find_valkey()
