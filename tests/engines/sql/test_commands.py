"""`holdfast ls`, `show` and `break` on the servers: what they say is what the table says."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.backends.mysql import mariadb_backend
from tests.backends.sql import postgres_backend
from tests.cli.processes import Holdfast, end_session
from tests.contract import Backend
from tests.engines.redis.party import Party

pytestmark = pytest.mark.slow

BACKENDS: dict[str, Callable[[Path], Backend]] = {
    "postgres": postgres_backend,
    "mariadb": mariadb_backend,
}


@pytest.fixture(params=BACKENDS)
def command(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Holdfast]:
    cli = Holdfast(tmp_path / "none.db")
    cli.url = BACKENDS[request.param](tmp_path).url
    yield cli
    for process in cli.started:
        end_session(process.pid)
        process.communicate()


def test_operators_see_who_holds_what_and_take_it_away(command: Holdfast) -> None:
    ann = Party("sync", command.url)
    lease = ann.takes("job 100%_", ttl=60, renew=False)
    ann.takes("else", ttl=60, renew=False)

    [listed] = json.loads(command.run("ls", "job 100%", "--json").stdout)
    assert (listed["name"], listed["fence"]) == (lease.name, lease.fence)
    assert (listed["holder"], listed["pid"]) == (lease.holder, os.getpid())
    assert 0 < listed["remaining"] <= 60

    shown = command.run("show", lease.name)
    assert f"fence    {lease.fence}" in shown.stdout.splitlines()

    broken = command.run("break", "--yes", lease.name)
    assert (broken.returncode, broken.stderr) == (0, "")
    assert command.run("show", lease.name).returncode == 1
    assert [info.name for info in ann(ann.client.leases)] == ["else"]
    ann.close()
