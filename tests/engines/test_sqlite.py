"""What is particular to the SQLite engine. What all engines share is in the contract suite."""

import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from math import inf
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from holdfast import Client, EngineUnavailable
from holdfast.core.messages import (
    DONE,
    NOT_YOURS,
    Acquire,
    Answer,
    Break,
    Extend,
    Failed,
    Granted,
    Held,
    Release,
    Request,
)
from holdfast.engines.sql.connection import wait_for as wait_for_descriptors
from holdfast.engines.sql.sqlite import threads as store_module
from holdfast.engines.sql.sqlite import waiters
from holdfast.engines.sql.sqlite.connection import PAGE, default_path, file_system
from holdfast.engines.sql.sqlite.threads import IDLE, SqliteStore
from holdfast.engines.sql.waiters import SHORTEST_LIFE
from tests.contract.interrupting import Interruption as AtLine
from tests.equipment.descriptors import free_descriptors
from tests.patience import wait_for

HOUR = 3600.0


class Host:
    """A machine with a boot clock that the test turns, and clients of one file on it."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.now = 100.0
        self.rung: list[str] = []
        self._stores: list[SqliteStore] = []
        self._patch = monkeypatch
        self.boot("first boot")

    def boot(self, name: str, clock: float = 100.0) -> None:
        """From now on, clients that open the file do so in this boot."""
        self._patch.setattr(store_module, "boot_id", lambda: name)
        self.now = clock

    def passes(self, seconds: float) -> bool:
        """Time passes."""
        self.now += seconds
        return True

    def client(self) -> SqliteStore:
        made = SqliteStore(self.path, lambda: self.now, self.rung.append)
        self._stores.append(made)
        return made

    def add_waiters(self, waiters: list[tuple[str, str]], shares: int = 1) -> None:
        """Rows of waiters for `job`: the holder, and the pipe that its process listened at."""
        with sqlite3.connect(self.path) as connection:
            connection.executemany(
                f"INSERT INTO holdfast_waiters VALUES (?, 'job', 1, ?, 0, {shares})", waiters
            )
            connection.execute("UPDATE holdfast_leases SET queued = 1")
        connection.close()

    def close(self) -> None:
        for each in self._stores:
            each.close()

    def rows(self, table: str = "holdfast_leases") -> int:
        with sqlite3.connect(self.path) as connection:
            (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        connection.close()
        return int(count)


def say(store: SqliteStore, request: Request) -> Answer:
    return store.ask([request], until=10**9)[0]


def fence(answer: Answer) -> int:
    assert isinstance(answer, Granted), answer
    return answer.fence


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    made = Host(tmp_path / "locks.db", monkeypatch)
    yield made
    made.close()


class TestBoots:
    def test_a_lease_of_an_earlier_boot_is_free_after_its_ttl(self, host: Host) -> None:
        old = host.client()
        say(old, Acquire("job", "old", 30.0))
        old.close()
        host.boot("second boot", clock=5.0)
        new = host.client()
        assert say(new, Acquire("job", "new", 30.0)) == Held(30.0, wakes=False)
        host.now += 29.9
        assert isinstance(say(new, Acquire("job", "new", 30.0)), Held)
        host.now += 0.2
        assert isinstance(say(new, Acquire("job", "new", 30.0)), Granted)

    def test_a_shorter_extension_shortens_no_lease_of_an_earlier_boot(self, host: Host) -> None:
        say(host.client(), Acquire("job", "me", 30.0))
        host.boot("second boot", clock=5.0)
        here = host.client()
        assert say(here, Extend("job", "me", 1.0)) == DONE
        host.now += 29.0
        assert isinstance(say(here, Acquire("job", "other", 30.0)), Held)

    def test_a_new_process_for_every_try_is_not_kept_out_for_ever(self, host: Host) -> None:
        old = host.client()
        say(old, Acquire("job", "old", 30.0))
        old.close()
        host.boot("second boot")
        answers = []
        for number in range(8):  # `holdfast run --nonblock` from cron
            each = host.client()
            answers.append(say(each, Acquire("job", f"new{number}", 30.0)))
            each.close()
            host.now += 5
        assert isinstance(answers[5], Held)
        assert isinstance(answers[6], Granted)

    def test_a_living_holder_on_another_kernel_keeps_its_lease(self, host: Host) -> None:
        there = host.client()
        say(there, Acquire("job", "there", 30.0))
        host.boot("another kernel", clock=7777.0)
        here = host.client()
        for _ in range(10):
            assert isinstance(say(here, Acquire("job", "here", 30.0)), Held)
            host.now += 20
            assert say(there, Extend("job", "there", 30.0)) == DONE
        assert say(there, Release("job", "there")) == DONE
        assert isinstance(say(here, Acquire("job", "here", 30.0)), Granted)

    def test_a_clock_that_is_far_behind_does_not_hold_a_lease_up(self, host: Host) -> None:
        """The end of an old lease is an instant of a clock that is gone."""
        host.now = 10**7
        say(host.client(), Acquire("job", "old", 30.0))
        host.boot("second boot", clock=1.0)
        new = host.client()
        say(new, Acquire("job", "new", 30.0))
        host.now += 30.1
        assert isinstance(say(new, Acquire("job", "new", 30.0)), Granted)

    def test_fences_grow_over_a_boot_even_if_the_last_grants_were_not_flushed(
        self, host: Host
    ) -> None:
        store = host.client()
        say(store, Acquire("kept", "a", 30.0))
        say(store, Release("kept", "a"))
        store.close()
        image = host.path.read_bytes()
        store = host.client()
        seen = [fence(say(store, Acquire("kept", "b", 30.0)))]
        say(store, Release("kept", "b"))
        seen.append(fence(say(store, Acquire("new", "b", 30.0))))
        say(store, Release("new", "b"))
        store.close()
        host.path.write_bytes(image)  # a power failure: the last commits never reached the disk
        host.boot("second boot")
        after = host.client()
        assert fence(say(after, Acquire("kept", "c", 30.0))) > max(seen)
        assert fence(say(after, Acquire("new", "c", 30.0))) > max(seen)

    def test_within_one_boot_fences_go_by_one(self, host: Host) -> None:
        fences = []
        for number in range(5):
            store = host.client()
            fences.append(fence(say(store, Acquire("job", str(number), 30.0))))
            say(store, Release("job", str(number)))
            store.close()
        assert fences == [1, 2, 3, 4, 5]


class TestPruning:
    def test_idle_rows_go_and_no_fence_comes_back(self, host: Host) -> None:
        store = host.client()
        for number in range(50):
            for _ in range(number % 7):
                say(store, Acquire(f"job{number}", "a", 30.0))
                say(store, Release(f"job{number}", "a"))
        say(store, Acquire("busy", "b", 24 * HOUR))
        store.close()
        assert host.rows() > 40
        host.now += 2 * HOUR
        for _ in range(200):  # each opening looks at a window of rows at a random place
            store = host.client()
            say(store, Extend("none", "nobody", 1.0))
            store.close()
            if host.rows() == 1:
                break
        assert host.rows() == 1
        again = host.client()
        assert say(again, Extend("busy", "b", 30.0)) == DONE
        for number in range(50):
            assert fence(say(again, Acquire(f"job{number}", "c", 30.0))) > number % 7

    def test_a_row_that_was_in_use_within_the_hour_stays(self, host: Host) -> None:
        store = host.client()
        say(store, Acquire("job", "a", 30.0))
        say(store, Release("job", "a"))
        store.close()
        host.now += IDLE / 10**6 - 1
        store = host.client()
        say(store, Extend("none", "nobody", 1.0))
        assert host.rows() == 1


class TestShares:
    def test_many_are_extended_together(self, host: Host) -> None:
        store = host.client()
        for holder in "abc":
            say(store, Acquire("job", holder, 30.0, shares=0))
        say(store, Acquire("other", "d", 30.0))
        requests = [
            Extend("job", "a", 60.0, shares=0),
            Extend("other", "d", 60.0),
            Extend("job", "z", 60.0, shares=0),
        ]
        assert store.ask(requests, until=10**9) == [DONE, DONE, NOT_YOURS]
        host.now += 40
        assert say(store, Extend("job", "a", 30.0, shares=0)) == DONE
        assert say(store, Extend("job", "b", 30.0, shares=0)) == NOT_YOURS

    @pytest.mark.parametrize("shares", [1, 2])
    def test_one_that_has_it_alone_sends_one_statement_for_each_request(
        self, host: Host, shares: int
    ) -> None:
        store, sent = host.client(), list[str]()
        say(store, Acquire("another", "b", 30.0))
        assert store._connection is not None
        store._connection.set_trace_callback(sent.append)
        assert isinstance(say(store, Acquire("job", "a", 30.0, shares=shares)), Granted)
        assert say(store, Extend("job", "a", 30.0, shares=shares)) == DONE
        assert say(store, Release("job", "a", shares=shares)) == DONE
        assert len(sent) == 3

    def test_one_that_had_it_alone_in_an_earlier_boot(self, host: Host) -> None:
        old = host.client()
        say(old, Acquire("job", "old", 30.0, shares=2))
        old.close()
        host.boot("second boot", clock=5.0)
        new = host.client()
        assert isinstance(say(new, Acquire("job", "new", 50.0, shares=2)), Granted)
        assert isinstance(say(new, Acquire("job", "another", 30.0, shares=2)), Held)
        host.now += 30.1
        assert isinstance(say(new, Acquire("job", "another", 30.0, shares=2)), Granted)

    def test_a_share_of_an_earlier_boot_is_free_after_its_ttl(self, host: Host) -> None:
        old = host.client()
        say(old, Acquire("job", "old", 30.0, shares=2))
        say(old, Acquire("job", "longer", 40.0, shares=2))
        old.close()
        host.boot("second boot", clock=5.0)
        new = host.client()
        assert isinstance(say(new, Acquire("job", "new", 30.0, shares=2)), Held)
        assert isinstance(say(new, Acquire("job", "writer", 30.0)), Held)
        host.now += 30.1
        assert isinstance(say(new, Acquire("job", "new", 30.0, shares=2)), Granted)
        assert isinstance(say(new, Acquire("job", "another", 30.0, shares=2)), Held)

    @pytest.mark.parametrize("dead", [1, 50])
    def test_waiters_of_a_process_that_died_are_skipped_at_once(
        self, host: Host, dead: int
    ) -> None:
        store = host.client()
        say(store, Acquire("job", "a", 30.0))
        host.add_waiters([(f"dead{number}", "gone") for number in range(dead)], shares=2)
        for waiter in "bc":
            say(store, Acquire("job", waiter, 30.0, queue=True, shares=2))
        say(store, Release("job", "a"))
        wait_for(lambda: sorted(host.rung) == ["b", "c"])
        fences = {
            fence(say(store, Acquire("job", each, 30.0, queue=True, shares=2))) for each in "bc"
        }
        assert len(fences) == 1


class TestQueue:
    def test_waiters_get_it_in_the_order_of_their_arrival(self, host: Host) -> None:
        store = host.client()
        say(store, Acquire("job", "a", 30.0))
        for waiter in "bcd":
            assert say(store, Acquire("job", waiter, 30.0, queue=True)) == Held(30.0, wakes=True)
        say(store, Release("job", "a"))
        assert isinstance(say(store, Acquire("job", "newcomer", 30.0)), Held)
        assert fence(say(store, Acquire("job", "b", 30.0, queue=True))) == 2
        say(store, Release("job", "b"))
        assert isinstance(say(store, Acquire("job", "d", 30.0, queue=True)), Held)
        assert fence(say(store, Acquire("job", "c", 30.0, queue=True))) == 3
        assert host.rows("holdfast_waiters") == 1

    def test_an_offer_lapses_if_it_is_not_confirmed(self, host: Host) -> None:
        store = host.client()
        say(store, Acquire("job", "a", 30.0))
        say(store, Acquire("job", "stopped", 30.0, queue=True))
        say(store, Acquire("job", "c", 30.0, queue=True))
        say(store, Release("job", "a"))
        assert say(store, Acquire("job", "c", 30.0, queue=True)) == Held(0.5, wakes=True)
        host.now += 0.6
        assert fence(say(store, Acquire("job", "c", 30.0, queue=True))) == 2
        assert isinstance(say(store, Acquire("job", "stopped", 30.0, queue=True)), Held)

    def test_a_waiter_asks_again_after_its_own_ttl_at_the_latest(self, host: Host) -> None:
        """Else a waiter that was stopped with an offer would keep it waiting for as long as the
        last lease, of a day, would have lasted."""
        store = host.client()
        say(store, Acquire("job", "a", 86400.0))
        say(store, Acquire("job", "stopped", 86400.0, queue=True))
        asks_in = say(store, Acquire("job", "c", 30.0, queue=True))
        assert asks_in == Held(30.0, wakes=True)
        asks_in = say(store, Acquire("job", "hasty", 0.01, queue=True))
        assert asks_in == Held(SHORTEST_LIFE, wakes=True), "and does not poll"
        say(store, Release("job", "a"))
        host.now += 30
        assert isinstance(say(store, Acquire("job", "c", 30.0, queue=True)), Granted)

    @pytest.mark.parametrize("dead", [1, 1500])
    def test_waiters_of_a_process_that_died_are_skipped_at_once(
        self, host: Host, dead: int
    ) -> None:
        store = host.client()
        say(store, Acquire("job", "a", 30.0))
        host.add_waiters([(f"dead{number}", "gone") for number in range(dead)])
        pipe = host.path.with_name(host.path.name + "-wakeup-gone")
        os.mkfifo(pipe)  # what a killed process leaves: a pipe that is not read
        say(store, Acquire("job", "alive", 30.0, queue=True))
        assert say(store, Release("job", "a")) == DONE
        assert isinstance(say(store, Acquire("job", "alive", 30.0, queue=True)), Granted)
        assert not pipe.exists()
        assert host.rows("holdfast_waiters") == 0

    def test_behind_a_holder_that_died_the_first_waiter_is_first(self, host: Host) -> None:
        store = host.client()
        say(store, Acquire("job", "a", 30.0))
        for waiter in "bc":
            say(store, Acquire("job", waiter, 30.0, queue=True))
        host.now += 31
        assert isinstance(say(store, Acquire("job", "newcomer", 30.0)), Held)
        assert isinstance(say(store, Acquire("job", "c", 30.0, queue=True)), Held)
        assert isinstance(say(store, Acquire("job", "b", 30.0, queue=True)), Granted)

    def test_a_file_by_two_names_has_one_set_of_pipes(self, host: Host, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        link = tmp_path / "elsewhere" / "link.db"
        store = host.client()
        say(store, Acquire("job", "a", 30.0))
        link.symlink_to(host.path)
        there = SqliteStore(link, lambda: host.now, host.rung.append)
        say(there, Acquire("job", "b", 30.0, queue=True))
        say(store, Release("job", "a"))
        wait_for(lambda: host.rung == ["b"])
        there.close()

    def test_rows_of_dead_waiters_are_swept_when_the_file_is_opened(self, host: Host) -> None:
        store = host.client()
        say(store, Acquire("job", "a", 30.0))
        say(store, Acquire("job", "b", 30.0, queue=True))
        host.add_waiters([("dead", "gone")])
        say(host.client(), Extend("none", "nobody", 1.0))
        assert host.rows("holdfast_waiters") == 1

    def test_pipes_of_the_dead_are_swept_when_the_file_is_opened(self, host: Host) -> None:
        dead = host.path.with_name(host.path.name + "-wakeup-0123456789abcdef")
        os.mkfifo(dead)
        os.utime(dead, (0, 0))
        young = host.path.with_name(host.path.name + "-wakeup-fedcba9876543210")
        os.mkfifo(young)
        waiting = host.client()
        say(waiting, Acquire("job", "a", 30.0))
        say(waiting, Acquire("job", "b", 30.0, queue=True))
        other = host.client()
        say(other, Extend("none", "nobody", 1.0))
        pipes = sorted(path.name for path in host.path.parent.glob("*-wakeup-*"))
        assert dead.name not in pipes
        assert young.name in pipes  # it may be about to be read
        assert len(pipes) == 2

    def test_a_broken_lock_goes_to_the_first_waiter(self, host: Host) -> None:
        store = host.client()
        say(store, Acquire("job", "a", 30.0))
        say(store, Acquire("job", "b", 30.0, queue=True))
        assert say(store, Break("job")) == DONE
        assert isinstance(say(store, Acquire("job", "newcomer", 30.0)), Held)
        assert fence(say(store, Acquire("job", "b", 30.0, queue=True))) == 2
        assert say(store, Extend("job", "a", 30.0)) == NOT_YOURS


def test_a_new_file_has_small_pages_and_an_old_one_keeps_its_own(tmp_path: Path) -> None:
    def pages(name: str) -> int:
        with Client(f"sqlite://{tmp_path}/{name}") as client, client.lock("job"):
            pass
        with closing(sqlite3.connect(tmp_path / name)) as file:
            return int(file.execute("PRAGMA page_size").fetchone()[0])

    with closing(sqlite3.connect(tmp_path / "old.db")) as file:
        file.execute("PRAGMA page_size = 8192")
        file.execute("CREATE TABLE mine (id)")
    assert pages("old.db") == 8192
    assert pages("new.db") == PAGE


class TestOpening:
    def test_the_default_file_is_the_users_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("HOLDFAST_URL", raising=False)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state with space"))
        with Client() as client, client.lock("job"):
            path = default_path()
            assert path == tmp_path / "state with space" / "holdfast" / "holdfast.db"
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            assert client.url == f"sqlite://{tmp_path}/state%20with%20space/holdfast/holdfast.db"

    @pytest.mark.parametrize("state", ["", "relative/path"])
    def test_without_a_usable_state_folder_it_is_under_the_home(
        self, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", state)
        monkeypatch.setenv("HOME", str(tmp_path))
        assert default_path() == tmp_path / ".local" / "state" / "holdfast" / "holdfast.db"

    def refusal(self, path: Path) -> str:
        with (
            Client(f"sqlite://{path}", ttl=1.0) as client,
            pytest.raises(EngineUnavailable) as caught,
        ):
            client.lock("job").acquire(timeout=0)
        assert str(path) in str(caught.value)
        return str(caught.value)

    def test_a_folder_that_does_not_exist(self, tmp_path: Path) -> None:
        assert "in a folder that exists" in self.refusal(tmp_path / "none" / "locks.db")

    def test_a_folder_for_a_file(self, tmp_path: Path) -> None:
        assert "it must be a file" in self.refusal(tmp_path)

    def test_a_file_that_is_not_a_database(self, tmp_path: Path) -> None:
        path = tmp_path / "letter.txt"
        path.write_text("Dear Sir or Madam, " * 100)
        assert "not an SQLite database" in self.refusal(path)
        assert path.read_text().startswith("Dear")

    def test_a_database_that_is_locked_for_too_long(self, tmp_path: Path) -> None:
        path = tmp_path / "locks.db"
        with Client(f"sqlite://{path}") as client:
            assert client.inspect("job") is None
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        assert "another program keeps the database locked" in self.refusal(path)
        other.execute("ROLLBACK")
        other.close()

    @pytest.mark.parametrize("version", [3, 99], ids=["older", "newer"])
    def test_a_file_of_another_version(self, tmp_path: Path, version: int) -> None:
        path = tmp_path / "locks.db"
        with Client(f"sqlite://{path}") as client:
            assert client.inspect("job") is None
        with sqlite3.connect(path) as connection:
            connection.execute(f"UPDATE holdfast_file SET version = {version}")
        connection.close()
        assert "another version of holdfast made it" in self.refusal(path)

    def test_a_network_file_system(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        mounts = tmp_path / "mountinfo"
        mounts.write_text(
            "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
            "30 22 0:40 / /mnt/team\\040share rw shared:1 - nfs4 server:/export rw\n"
        )
        assert file_system(Path("/mnt/team share/locks"), str(mounts)) == "nfs4"
        assert file_system(Path("/mnt/team"), str(mounts)) == "ext4"
        assert file_system(Path("/mnt"), str(tmp_path / "none")) == ""
        monkeypatch.setattr(
            "holdfast.engines.sql.sqlite.connection.file_system", lambda folder: "nfs4"
        )
        assert "network file system (nfs4)" in self.refusal(tmp_path / "locks.db")

    def test_a_folder_that_cannot_be_written(self) -> None:
        with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are the user's alone
            Path(folder).chmod(0o555)
            assert "can be written" in self.refusal_for_an_ordinary_user(f"{folder}/locks.db")

    def refusal_for_an_ordinary_user(self, path: str) -> str:
        code = f"""
import os
import holdfast, holdfast.engines.sql.sqlite.threads
with holdfast.Client("memory://").lock("job"):
    pass  # all that is imported late is there: the source may be where only its owner can read
if os.getuid() == 0:
    os.setuid(65534)
try:
    holdfast.Client("sqlite://{path}").lock("job").acquire(timeout=0)
except holdfast.EngineUnavailable as error:
    print(error)
"""
        command = [sys.executable, "-W", "ignore", "-c", code]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    @pytest.mark.parametrize(
        "url",
        [
            "sqlite://relative/path.db",
            "sqlite://",
            "sqlite:///",
            "sqlite:///a?mode=ro",
            "sqlite:///a#b",
        ],
    )
    def test_a_url_that_makes_no_sense(self, url: str) -> None:
        with pytest.raises(ValueError, match=r"(url|mode): "):
            Client(url)

    def test_the_file_can_be_reached_again_after_an_error(self, tmp_path: Path) -> None:
        path = tmp_path / "later" / "locks.db"
        with Client(f"sqlite://{path}") as client:
            with pytest.raises(EngineUnavailable):
                client.lock("job").acquire(timeout=0)
            path.parent.mkdir()
            with client.lock("job") as lease:
                assert lease.held


def test_failures_name_the_file(host: Host) -> None:
    host.path.mkdir()
    answer = say(host.client(), Acquire("job", "a", 1.0))
    assert isinstance(answer, Failed)
    [(node, why)] = answer.nodes
    assert node == str(host.path)
    assert "it cannot be opened" in why
    assert answer.heals_in == inf
    host.path.rmdir()


def test_a_database_that_is_damaged(host: Host) -> None:
    store = host.client()
    say(store, Acquire("job", "a", 30.0))
    store.close()
    content = host.path.read_bytes()
    host.path.write_bytes(content[:PAGE] + b"\xff" * (len(content) - PAGE))
    answer = say(host.client(), Acquire("job", "b", 30.0))
    assert isinstance(answer, Failed)
    assert "the database is damaged" in str(answer)
    assert answer.heals_in == inf  # told at once, since waiting does not heal it


def test_a_path_that_leads_in_a_circle(tmp_path: Path) -> None:
    path = tmp_path / "locks.db"
    path.symlink_to(path)
    with (
        Client(f"sqlite://{path}") as client,
        pytest.raises(EngineUnavailable, match=f"{path}: it cannot be opened"),
    ):
        client.lock("job").acquire(timeout=600)  # told at once, since waiting does not heal it


@pytest.mark.parametrize("left", [0, 1])
def test_a_pipe_that_cannot_be_opened_leaves_nothing(host: Host, left: int) -> None:
    with free_descriptors(left) as first, pytest.raises(OSError, match="Too many open files"):
        waiters.Pipe(host.path, host.rung.append)
    reading = os.dup(0)
    os.close(reading)
    assert reading == first
    assert not list(host.path.parent.iterdir())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_two_threads_may_close_it_at_once(host: Host) -> None:
    is_closed = threading.Event()

    def stay(holder: str) -> None:
        is_closed.wait(10)

    store = SqliteStore(host.path, lambda: host.now, stay)
    other = host.client()
    say(other, Acquire("job", "a", 30.0))
    say(store, Acquire("job", "b", 30.0, queue=True))
    say(other, Release("job", "a"))  # the thread that listens is in `stay` now

    def close() -> None:
        store.close()
        is_closed.set()

    with ThreadPoolExecutor(2) as pool:
        for closing_it in [pool.submit(close) for _ in range(2)]:
            closing_it.result(60)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
@pytest.mark.parametrize("runs", ["before", "after"])
def test_a_listener_whose_start_was_interrupted_leaves_nothing_behind(
    host: Host, monkeypatch: pytest.MonkeyPatch, runs: str
) -> None:
    """A Ctrl-C came before the new thread ran, so that another is started by the next waiter."""
    start, late = threading.Thread.start, list[threading.Thread]()

    def is_interrupted(thread: threading.Thread) -> None:
        late.append(thread)
        raise KeyboardInterrupt

    store, other = host.client(), host.client()
    say(other, Acquire("job", "a", 30.0))
    files = set(host.path.parent.iterdir())
    waits = Acquire("job", "b", 30.0, queue=True)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", is_interrupted)
        with pytest.raises(KeyboardInterrupt):
            say(store, waits)
    assert say(store, waits) == Held(30.0, wakes=True)
    [thread] = late
    if runs == "before":
        start(thread)
        wait_for(lambda: not thread.is_alive())
    say(other, Release("job", "a"))
    wait_for(lambda: host.rung == ["b"])
    store.close()
    if runs == "after":
        start(thread)
        thread.join(10)
    assert set(host.path.parent.iterdir()) <= files


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_that_was_interrupted_in_the_making_leaves_nothing_behind(host: Host) -> None:
    host.path.touch()
    for line in count():
        interruption = AtLine(line, ("sqlite/waiters.py",), functions=("__init__",))
        before = set(os.listdir("/dev/fd"))
        try:
            with interruption:
                pipe = waiters.Pipe(host.path, host.rung.append)
        except KeyboardInterrupt:
            assert set(os.listdir("/dev/fd")) == before
            assert list(host.path.parent.iterdir()) == [host.path]
        if not interruption.happened:
            break
    pipe.close()
    assert line > 5


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_waiters_poll_where_no_thread_can_be_had(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    store = host.client()
    say(store, Acquire("job", "a", 30.0))
    monkeypatch.setattr(threading.Thread, "start", refuse)
    answer = say(store, Acquire("job", "b", 30.0, queue=True))
    assert isinstance(answer, Held)
    assert not answer.wakes


class Interruption:
    """Does something right after so many calls of that function, as a signal handler can."""

    def __init__(self, after: str, what: Callable[[], object], calls: int = 1) -> None:
        self._after, self._what, self._calls = after, what, calls

    def __enter__(self) -> None:
        sys.setprofile(self._watch)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _watch(self, frame: FrameType, event: str, function: Any) -> None:
        if event == "c_return" and function.__name__ == self._after:
            self._calls -= 1
            if self._calls:
                return
            sys.setprofile(None)
            del function  # the cursor is in it, and this frame may get into a traceback
            self._what()


def test_an_interrupted_statement_is_not_left_unfinished(host: Host) -> None:
    """It would keep the file from every other connection for as long as its traceback lives."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    store, other = host.client(), host.client()
    say(store, Acquire("warm-up", "a", 30.0))
    with pytest.raises(KeyboardInterrupt) as _kept, Interruption("execute", interrupt):
        say(store, Acquire("job", "a", 30.0))
    assert other.ask([Acquire("another", "b", 30.0)], until=0.0) == [Granted(1)]


@pytest.mark.parametrize("is_held", [False, True], ids=["free", "held"])
def test_rows_that_an_interruption_leaves_unread_do_not_keep_the_file(
    host: Host, monkeypatch: pytest.MonkeyPatch, is_held: bool
) -> None:
    """Neither those of one statement, nor those of a transaction."""
    store, other = host.client(), host.client()
    say(store, Acquire("warm-up", "a", 30.0))
    monkeypatch.setattr("time.sleep", host.passes)
    kept: list[KeyboardInterrupt] = []
    for line in count():
        if is_held:
            say(other, Acquire(f"job {line}", "a", 30.0))
        interruption = AtLine(line, ("sqlite/connection.py",), functions=("rows_of",))
        try:
            with interruption:
                say(store, Acquire(f"job {line}", "b", 30.0, queue=True))
        except KeyboardInterrupt as error:
            kept.append(error)
        assert other.ask([Acquire(f"another {line}", "c", 30.0)], until=0.0) == [Granted(1)]
        if not interruption.happened:
            break
    assert len(kept) >= 4


def test_a_transaction_that_is_interrupted_in_the_event_loop_is_not_left_open(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An acquire looks for idle rows now and then, in a transaction."""
    store, other = host.client(), host.client()
    say(store, Acquire("warm-up", "a", 30.0))
    monkeypatch.setattr(store_module, "PRUNE_EVERY", 1)
    monkeypatch.setattr("time.sleep", host.passes)

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Interruption("execute", interrupt, calls=2):
        store.ask_now([Acquire("job", "a", 30.0)])
    assert other.ask([Acquire("another", "b", 30.0)], until=0.0) == [Granted(1)]


@pytest.mark.parametrize("writes", [1, 2])
def test_another_writer_is_waited_for_a_little_even_if_no_time_is_left(
    host: Host, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """It is done in a moment: it must not look as if the file could not be used."""
    store, first = host.client(), host.client()
    say(store, Acquire("job", "a", 30.0))
    say(first, Acquire("warm-up", "b", 30.0))
    waits: list[float] = []
    with closing(sqlite3.connect(host.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        def sleep(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 3:
                other.execute("ROLLBACK")

        monkeypatch.setattr("time.sleep", sleep)
        if writes == 1:
            assert store.ask([Release("job", "a")], until=0.0) == [DONE]
        else:  # a transaction of several statements
            held = first.ask([Acquire("job", "b", 30.0, queue=True)], until=0.0)
            assert held == [Held(30.0, wakes=True)]
    assert len(waits) == 3
    assert host.rows("holdfast_waiters") == writes - 1


def test_a_wait_that_is_overdue_ends_at_once_without_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under eventlet, which has `select` alone."""
    monkeypatch.delattr("select.poll")
    reading, writing = os.pipe()
    try:
        assert not wait_for_descriptors([reading], seconds=-0.1)
    finally:
        os.close(reading)
        os.close(writing)
