"""URLs of ZooKeeper: what is refused before anything is sent."""

import pytest

import holdfast
from tests.patience import wait_for


@pytest.mark.parametrize(
    "path", ["//a", "/a//b", "/a%2F/b", "/.", "/a/../b", "/a%00", "/%FF", "/🔑"]
)
def test_a_chroot_that_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="cannot be the path of a node"):
        holdfast.Client(f"zookeeper://h{path}")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("zookeeper://h:0", "url: 'h:0' has no valid port"),
        ("zookeeper://h1,,h3", "url: one of several hosts is empty"),
        ("zookeeper://h?tick=long", "tick: must be from 0.001 to 3600 seconds, got 'long'"),
    ],
)
def test_what_is_refused(url: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        holdfast.Client(url)


@pytest.mark.parametrize("path", ["", "/", "/a/", "/a/b.c", "/ключ", "/...", "/team@prod"])
def test_a_chroot_that_is_a_path(path: str) -> None:
    holdfast.Client(f"zookeeper://h{path}").close()


def test_an_error_says_that_a_name_cannot_be_resolved() -> None:
    with holdfast.Client("zookeeper://no-such-host.invalid") as client:

        def is_told() -> bool:
            with pytest.raises(holdfast.EngineUnavailable) as caught:
                client.lock("job").acquire(timeout=0.1)
            return "name can be resolved" in str(caught.value)

        wait_for(is_told)  # the resolver may take its time
