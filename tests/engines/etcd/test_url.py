"""URLs of etcd: what they say, and what is refused before anything is asked."""

import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.engines.etcd import _cluster
from holdfast.options import read_options
from tests.equipment.servers.etcd import EtcdServer


def endpoints(url: str) -> tuple[str, ...]:
    options = read_options(url, prefix=None, ttl=None, retry=None, engine={})
    return _cluster(options.url, options.engine).endpoints


def test_endpoints() -> None:
    assert endpoints("etcd://") == ("localhost:2379",)
    assert endpoints("etcd://h1,h2:2380,[::1],[::2]:7") == (
        "h1:2379",
        "h2:2380",
        "[::1]:2379",
        "[::2]:7",
    )


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("etcd://h:0", "url: 'h:0' has no valid port"),
        ("etcd://h:x", "url: 'h:x' has no valid port"),
        ("etcd://::1:2379", "url: an IPv6 address is written in brackets"),
        ("etcd://h/0", "url: etcd has no databases"),
        ("etcd://h?ca_cert=/dev/null", "ca_cert: there is no file"),
        ("etcds://h?cert=/no/such", "cert: there is no file"),
        ("etcd://h?mode=red", "mode: this engine has no such option"),
    ],
)
def test_what_is_refused(url: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        holdfast.Client(url)


def test_files_that_go_together(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ValueError, match="cert: goes together with key"):
        holdfast.Client("etcds://h", cert=file)
    with pytest.raises(ValueError, match="ca_cert: is for etcds://"):
        holdfast.Client("etcd://h", ca_cert=file)


def test_a_ttl_has_whole_seconds() -> None:
    with holdfast.Client("etcd://h", ttl=2.5) as client:
        assert client.guarantees.min_ttl == 2
        assert client.guarantees.suits == "correctness"
        with pytest.raises(ValueError, match="ttl: must be from 2 to 86400"):
            client.lock("door", ttl=1)


def test_grpc_is_imported_only_for_etcd() -> None:
    code = "import sys, holdfast; holdfast.Client('memory://'); print('grpc' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "False\n"


@pytest.mark.slow
def test_a_proxy_for_web_pages_is_not_asked(
    server: EtcdServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with holdfast.Client(server.url) as client, client.lock("door", timeout=20):
        pass
