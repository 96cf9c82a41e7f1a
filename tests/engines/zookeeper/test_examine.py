"""What the doctor says of a ZooKeeper ensemble."""

from holdfast import Client
from tests.equipment.servers.zookeeper import ZooKeeperEnsemble, ZooKeeperServer


def findings(url: str) -> dict[str, str]:
    with Client(url) as client:
        return {each.what: each.severity for each in client.diagnose()}


def test_one_server(server: ZooKeeperServer) -> None:
    assert findings(server.url)["it is one server"] == "note"


def test_an_ensemble(ensemble: ZooKeeperEnsemble) -> None:
    found = findings(ensemble.url)
    assert "critical" not in found.values()
    assert findings(ensemble.servers[0].url)["the URL names one server"] == "warning"
    ensemble.servers[0].kill()
    found = findings(ensemble.url)
    assert [severity for what, severity in found.items() if "does not answer" in what] == [
        "warning"
    ]
