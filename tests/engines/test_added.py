"""Engines that other packages add by entry points."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Client
from tests.backends.toy import ToyBackend


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[ToyBackend]:
    backend = ToyBackend(tmp_path)
    yield backend
    backend.close()


def test_a_package_adds_a_scheme(toy: ToyBackend) -> None:
    with Client(toy.url, ttl=5) as client, client.lock("a") as lease:
        assert lease.fence == 1
        assert client.guarantees.engine == "toy"


def test_without_the_package_there_is_no_such_engine() -> None:
    with pytest.raises(ValueError, match="there is no engine for 'toy'"):
        Client("toy://here")


def test_the_schemes_of_packages_are_named_with_ours(toy: ToyBackend) -> None:
    with pytest.raises(ValueError, match=r"there is no engine for 'toyy'.*toy://"):
        Client("toyy://here")
    with pytest.raises(ValueError, match=r"there is no engine for 'unknown'.*etcds://, toy://"):
        Client("unknown://here")


def test_the_options_are_the_packages_own(toy: ToyBackend) -> None:
    with pytest.raises(ValueError, match="mode: this engine has no such option"):
        Client(f"{toy.url}?mode=red")


def test_only_sql_servers_take_a_function_to_connect(toy: ToyBackend) -> None:
    with pytest.raises(ValueError, match="connect: "):
        Client(toy.url, connect=dict)


def test_a_package_whose_own_library_is_missing_names_it(toy: ToyBackend) -> None:
    module = Path(toy.packages) / "toy_engine.py"
    module.write_text("import no_such_library\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        Client(toy.url)
