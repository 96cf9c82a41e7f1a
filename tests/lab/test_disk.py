"""A full disk under a server that writes down what it does."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.lab.servers.process import Refused
from holdfast.lab.servers.redis import AppendOnly, RedisServer
from tests.equipment.disk import fill_disk, free_disk
from tests.patience import wait_for


@contextmanager
def writing(folder: Path, program: str, append_only: AppendOnly) -> Iterator[RedisServer]:
    with RedisServer(folder, program=program, append_only=append_only) as server:
        server.command("SET", "key", "before")
        yield server


def refusal(server: RedisServer) -> str:
    """Its error for a write; empty if it accepts it."""
    try:
        server.command("SET", "key", "after")
    except Refused as error:
        return str(error)
    return ""


def test_with_everysec_it_refuses_until_there_is_room(tmp_path: Path, program: str) -> None:
    with writing(tmp_path, program, "everysec") as server:
        fill_disk(server)
        wait_for(lambda: refusal(server).startswith("MISCONF"))
        assert server.info("persistence")["aof_last_write_status"] == "err"
        assert server.command("EXISTS", "key") == 1
        free_disk(server)
        wait_for(lambda: not refusal(server))
        assert server.command("GET", "key") == "after"


def test_with_always_it_ends_rather_than_break_its_promise(tmp_path: Path, program: str) -> None:
    with writing(tmp_path, program, "always") as server:
        fill_disk(server)
        with pytest.raises(ConnectionError):
            server.command("SET", "key", "after")
        wait_for(lambda: not server.alive)
        assert server.start().command("GET", "key") == "before"
        assert refusal(server) == ""


def test_without_persistence_it_does_not_care(tmp_path: Path, program: str) -> None:
    with writing(tmp_path, program, "no") as server:
        fill_disk(server)
        assert refusal(server) == ""
