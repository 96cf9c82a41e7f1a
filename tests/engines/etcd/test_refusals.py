"""What waiting does not heal is said to be so; and nothing leads a connection astray."""

import time
from math import inf
from typing import Any
from urllib.parse import urlsplit

import pytest

import holdfast
from holdfast.core.messages import Acquire, Answer, Extend, Failed
from holdfast.core.ports import StoreHost
from holdfast.drivers.common import clock
from holdfast.engines import open_engine
from holdfast.engines.etcd.commands import KeepAlives
from holdfast.engines.etcd.connection import Connection, Rejected
from tests.equipment.servers.etcd import EtcdServer

from .test_security import guarded, login
from .unreliable import Step, store_on

__all__ = ["guarded"]
pytestmark = pytest.mark.slow


def ask(url: str, key: str) -> Answer:
    store = open_engine(urlsplit(url), {}).connect(StoreHost(time.monotonic, print, print))
    try:
        [answer] = store.ask([Acquire(key, "host/1/program/1", 10.0)], time.monotonic() + 20)
        return answer
    finally:
        store.close()


@pytest.mark.parametrize(
    ("user", "key"),
    [("ann:wrong", "holdfast:door"), ("ann:se%3Acr%2Fet", "other:door")],
    ids=["password", "right"],
)
def test_a_wrong_password_and_a_missing_right(guarded: EtcdServer, user: str, key: str) -> None:
    answer = ask(login(guarded, user), key)
    assert isinstance(answer, Failed)
    assert answer.heals_in == inf


def test_a_proxy_for_web_pages_is_not_asked(
    server: EtcdServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with holdfast.Client(server.url) as client, client.lock("door", timeout=20):
        pass


def test_a_keep_alive_that_is_refused(server: EtcdServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with store_on(server) as store:
        store.ask((Acquire("door", "ann", 30),), clock() + 10)
        send = store._send

        def refuse(step: Step, connection: Connection, until: float) -> Any:
            if isinstance(step, KeepAlives):
                raise Rejected("permission denied")
            return send(step, connection, until)

        monkeypatch.setattr(store, "_send", refuse)
        [answer] = store.ask((Extend("door", "ann", 30),), clock() + 10)
        assert isinstance(answer, Failed)
        assert "permission denied" in str(answer)
        monkeypatch.undo()
