"""What waiting does not heal is said to be so; and nothing leads a connection astray."""

import time
from math import inf
from urllib.parse import urlsplit

import pytest

import holdfast
from holdfast.core.messages import Acquire, Answer, Failed
from holdfast.core.ports import StoreHost
from holdfast.engines import open_engine
from tests.equipment.servers.etcd import EtcdServer

from .test_security import guarded, login

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
