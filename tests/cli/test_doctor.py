"""`holdfast doctor`: findings, hints, JSON, and an exit code by severity."""

from __future__ import annotations

import json

import pytest

from holdfast.lab.servers.redis import RedisServer

from .processes import Holdfast


def test_a_sound_engine(holdfast: Holdfast) -> None:
    plain, as_json, hints = holdfast.ask(
        ["doctor", holdfast.url], ["doctor", holdfast.url, "--json"], ["doctor", "--fix-hints"]
    )
    assert plain[0] == as_json[0] == hints[0] == 0
    assert "an SQLite file on one host" in plain[1]
    assert "critical: 0, warnings: 0" in plain[1]
    assert "a waiter had the lock" in plain[1]
    found = json.loads(as_json[1])
    assert set(found) == {"url", "engine", "broken_by", "findings"}
    assert {finding["severity"] for finding in found["findings"]} == {"note"}
    assert hints[1] == ""


def test_a_bad_url(holdfast: Holdfast) -> None:
    [(code, _, err)] = holdfast.ask(["doctor", "sqlite://relative.db"])
    assert code == 64
    assert "sqlite:// takes an absolute path" in err


@pytest.mark.slow
def test_servers_with_something_wrong(holdfast: Holdfast) -> None:
    with RedisServer() as server:
        server.command("CONFIG", "SET", "save", "")
        warned, hints = holdfast.ask(["doctor", server.url], ["doctor", server.url, "--fix-hints"])
        server.command("CONFIG", "SET", "maxmemory", "100mb")
        server.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        [critical] = holdfast.ask(["doctor", server.url])
        server.kill()
        [down] = holdfast.ask(["doctor", server.url])
    assert [each[0] for each in (warned, hints, critical, down)] == [1, 1, 2, 2]
    assert "appendfsync always" in hints[1]
    assert critical[1].splitlines()[3].startswith("critical")
    assert "it does not answer" in down[1]
