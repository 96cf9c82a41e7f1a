"""Results to come: each callback is called once."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.engines.zookeeper.connection import Servers, _Threads
from holdfast.engines.zookeeper.promise import Promise


@pytest.fixture
def promise() -> Promise:
    return Promise(_Threads(Servers(())))


def test_a_result(promise: Promise) -> None:
    assert not promise.ready()
    assert not promise.wait(0.001)
    with pytest.raises(_Threads.timeout_exception):
        promise.get_nowait()
    promise.set(7)
    assert promise.wait()
    assert promise.successful()
    assert promise.get() == 7


def test_an_error(promise: Promise) -> None:
    promise.set_exception(LookupError("gone"))
    assert promise.ready()
    assert not promise.successful()
    with pytest.raises(LookupError, match="gone"):
        promise.get()


def test_who_asks_early_and_who_asks_late_are_told(promise: Promise) -> None:
    told: list[object] = []
    promise.rawlink(told.append)
    promise.set()
    promise.rawlink(told.append)
    assert told == [promise] * 2


def test_nobody_is_told_twice_or_not_at_all_however_it_meets() -> None:
    with ThreadPoolExecutor(2) as pool:
        for _ in range(500):
            promise = Promise(_Threads(Servers(())))
            told: list[object] = []
            keeping, linking = (
                pool.submit(promise.set),
                pool.submit(promise.rawlink, told.append),
            )
            assert promise.wait(30)
            keeping.result(30)
            linking.result(30)
            assert told == [promise]
