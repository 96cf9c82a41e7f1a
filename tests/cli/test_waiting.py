"""What a person sees on a terminal, and a program does not."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys

import pytest

import holdfast as library
from holdfast.lab.servers.redis import RedisServer

from .console import console
from .processes import PATIENCE, Holdfast, finish, line_of

CLI = [sys.executable, "-m", "holdfast.cli"]


def test_a_terminal_shows_whom_it_waits_for(holdfast: Holdfast) -> None:
    environment = {"HOLDFAST_URL": holdfast.url}
    with library.Client(holdfast.url, label="blue") as client:
        lease = client.lock("nightly").acquire()
        assert lease
        with console([*CLI, "run", "nightly", "--", "echo", "done"], environment) as screen:
            shown = screen.expect("s left")
            assert "waiting for nightly: held by" in shown
            assert "(blue) on" in shown
            lease.release()
            screen.expect("\r\x1b[K")  # the line is removed
            screen.expect("done")
            assert screen.expect_exit() == 0


def test_of_several_locks_it_shows_the_one_that_it_waits_for(holdfast: Holdfast) -> None:
    """It holds `a` itself by then, and would acquire `c` after `b`."""
    environment = {"HOLDFAST_URL": holdfast.url}
    several = ["--label", "mine", "c", "--also", "a", "--also", "b", "--also", "d"]
    with library.Client(holdfast.url, label="blue") as client, client.lock("d"):
        lease = client.lock("b").acquire()
        assert lease
        with console([*CLI, "run", *several, "--", "true"], environment) as screen:
            shown = screen.expect("s left")
            assert "waiting for b: held by" in shown
            assert "(blue) on" in shown
            lease.release()
            shown = screen.expect("waiting for d: held by")
            assert "mine" not in shown


SAME_PID = """
import os, sys
import holdfast
lease = holdfast.Client(ttl=3600).lock("job").acquire()
os.execv(sys.executable, [sys.executable, "-m", "holdfast.cli", "run", *sys.argv[1:]])
"""
"""A process that holds the lock until it is followed by another one of the same host and pid."""


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (["job"], "waiting for job: held by"),
        (["a", "--also", "job"], "waiting for job: held by"),
        (["-n", "job"], "'job' is still held by"),
    ],
)
def test_a_holder_that_had_the_same_pid(holdfast: Holdfast, options: list[str], shown: str) -> None:
    """As in a container that was killed, and was started again."""
    argv = [sys.executable, "-c", SAME_PID, *options, "true"]
    with console(argv, {"HOLDFAST_URL": holdfast.url}) as screen:
        screen.expect(shown)


def test_a_pipe_is_not_told(holdfast: Holdfast) -> None:
    with library.Client(holdfast.url) as client, client.lock("nightly"):
        done = holdfast.run("run", "-w", "1.5", "nightly", "--", "true")
    assert done.returncode == 75
    assert "waiting for" not in done.stderr
    assert "still held by" in done.stderr


def test_ls_on_a_terminal_names_the_engine(holdfast: Holdfast) -> None:
    environment = {"HOLDFAST_URL": holdfast.url}
    with console([*CLI, "ls"], environment) as screen:
        screen.expect(f"{holdfast.url}: no lock is held")
        assert screen.expect_exit() == 0
    with library.Client(holdfast.url) as client:
        lease = client.lock("nightly").acquire()
        with console([*CLI, "ls"], environment) as screen:
            screen.expect(holdfast.url)
            screen.expect("nightly")
            assert screen.expect_exit() == 0
        with console([*CLI, "show", "nightly"], environment) as screen:
            screen.expect(holdfast.url)
            screen.expect("\x1b[36mheld by")
            assert screen.expect_exit() == 0
        assert lease


@pytest.mark.parametrize(
    ("outer", "inner", "waits"),
    [
        (["job"], ["job"], True),
        (["job"], ["other"], False),
        (["job", "--also", "other"], ["job"], True),
        (["job", "--also", "other"], ["other"], True),
        (["job"], ["other", "--also", "job"], True),
        (["--shared", "job"], ["job"], True),
        (["--shared", "job"], ["--shared", "job"], False),
        (["--slots", "2", "job"], ["--slots", "2", "job"], False),
    ],
)
def test_a_run_inside_of_one_that_has_its_lock(
    holdfast: Holdfast, outer: list[str], inner: list[str], waits: bool
) -> None:
    script = shlex.join([*CLI, "run", "-w", "0.1", *inner, "--", "true"])
    done = holdfast.run("run", *outer, "-c", script)
    assert done.returncode == (75 if waits else 0)
    assert ("held by the holdfast run that this one runs inside of" in done.stderr) == waits


PATIENT = """
import holdfast.core.queries, holdfast.drivers.threads
from holdfast.cli import main
holdfast.core.queries.NODE_TIMEOUT, holdfast.drivers.threads.CLOSE_TIMEOUT = 3600.0, 0.1
main()
"""
"""The program, which would wait for an hour for an engine that does not answer."""


AROUND_IT = {"HOLDFAST_HOLDER": f"web-3/7/holdfast/{32 * '0'}", "HOLDFAST_FENCES": '{"job": 7}'}
"""What a run that holds `job` gives to a run inside of it."""


def test_a_run_of_another_lock_does_not_look_for_one_around_it() -> None:
    """It would wait for longer than it was told to."""
    with RedisServer() as server:
        server.freeze()
        run = [sys.executable, "-c", PATIENT, "run", "-w", "0.1", "--url", server.url, "a", "true"]
        done = subprocess.run(run, env={**os.environ, **AROUND_IT}, timeout=PATIENCE)
        assert done.returncode == 69
        server.thaw()


def test_a_signal_ends_the_look_for_a_run_around_it() -> None:
    inside = {**os.environ, **AROUND_IT}
    with RedisServer() as server:
        server.freeze()
        run = [sys.executable, "-c", PATIENT, "run", "-v", "--url", server.url, "job", "true"]
        with subprocess.Popen(run, env=inside, text=True, stderr=subprocess.PIPE) as process:
            assert "waiting for 'job'" in line_of(process.stderr)
            process.terminate()
            assert finish(process)[0] == -signal.SIGTERM
        server.thaw()


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("localhost:6379", "did you mean redis://localhost:6379?"),
        ("ann:secret@10.0.0.1:5432/shop", "did you mean postgresql://ann@10.0.0.1:5432/shop?"),
        ("redsi://localhost", "did you mean redis://?"),
        ("mongodb://localhost", "this version has memory://"),
        ("localhost", "as in redis://localhost or sqlite:///path/to/file"),
        ("redis://localhost?max_tll=5", "did you mean max_ttl?"),
        ("mariadb://localhost/shop?conections=5", "did you mean connections?"),
        ("etcd://localhost?perfix=x", "did you mean prefix?"),
        ("sqlite://locks.db", "for a file in this folder write sqlite:///"),
        ("sqlite:///?ann:secret", "this engine has no such option"),
    ],
)
def test_a_hint_for_a_wrong_url(url: str, hint: str) -> None:
    with pytest.raises(ValueError, match=r"url: |no such option") as caught:
        library.Client(url)
    assert hint in str(caught.value)
    assert "secret@" not in str(caught.value)


def test_names_are_completed(holdfast: Holdfast) -> None:
    with library.Client(holdfast.url) as client, client.lock("nightly"), client.lock("noon"):
        words = {"COMP_WORDS": "holdfast show ni", "COMP_CWORD": "2"}
        done = holdfast.run(env={"_HOLDFAST_COMPLETE": "bash_complete", **words})
    assert done.stdout == "plain,nightly\n"
