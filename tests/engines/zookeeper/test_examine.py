"""What the doctor says of a ZooKeeper ensemble."""

from holdfast import Client, NodeInfo
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
    assert found["2 of 3 servers have a vote now: none to spare"] == "warning"


def nodes(url: str) -> list[NodeInfo]:
    with Client(url) as client:
        return client.nodes()


def test_the_nodes(ensemble: ZooKeeperEnsemble) -> None:
    found = nodes(ensemble.url)
    assert [(node.answers, node.margin) for node in found] == [(True, 1)] * 3
    assert all(node.round_trip and node.offset is None for node in found)
    [one] = nodes(ensemble.servers[0].url)
    assert (one.answers, one.margin) == (True, None), "the URL does not name them all"
    ensemble.servers[0].kill()
    ensemble.leader()
    ensemble.wait_until(lambda: nodes(ensemble.url)[2].answers, "a majority")
    assert [(node.answers, node.margin) for node in nodes(ensemble.url)] == [
        (False, 0),
        (True, 0),
        (True, 0),
    ]
    ensemble.servers[1].kill()
    ensemble.wait_until(lambda: not nodes(ensemble.url)[2].answers, "no majority")
    found = nodes(ensemble.url)
    assert [node.margin for node in found] == [-2] * 3
    assert "serves no requests now" in found[2].error
