"""What the doctor says of an etcd cluster."""

import json
import urllib.request

from holdfast import Client
from tests.equipment.servers.etcd import EtcdServer


def findings(url: str) -> dict[str, str]:
    with Client(url) as client:
        return {each.what: each.severity for each in client.diagnose()}


def test_one_member(server: EtcdServer) -> None:
    assert findings(server.url)["it survives the failure of no member"] == "note"


def test_a_member_that_does_not_answer(server: EtcdServer) -> None:
    found = findings(f"{server.url},127.0.0.1:1")
    assert [severity for what, severity in found.items() if "does not answer" in what] == [
        "warning"
    ]


def test_an_alarm(server: EtcdServer) -> None:
    """As a member raises it whose disk is full."""
    alarm(server, "ACTIVATE")
    try:
        found = findings(server.url)
    finally:
        alarm(server, "DEACTIVATE")
    assert found["it has raised the alarm NOSPACE"] == "critical"


def alarm(server: EtcdServer, action: str) -> None:
    """By the JSON gateway."""
    base = server.url.replace("etcd://", "http://")

    def post(path: str, body: object) -> dict[str, dict[str, str]]:
        request = urllib.request.Request(f"{base}/v3/{path}", json.dumps(body).encode())
        with urllib.request.urlopen(request) as reply:
            answer: dict[str, dict[str, str]] = json.load(reply)
            return answer

    member = post("maintenance/status", {})["header"]["member_id"]
    post("maintenance/alarm", {"action": action, "memberID": member, "alarm": "NOSPACE"})
