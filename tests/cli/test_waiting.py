"""What a person sees on a terminal, and a program does not."""

from __future__ import annotations

import shlex
import sys

import pytest

import holdfast as library

from .console import console
from .processes import Holdfast

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
            screen.expect("\r\x1b[Kwaiting for nightly: held by")  # written anew
            screen.expect("s left")
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


INSIDE = "held by the holdfast run that this one runs inside of"


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        (["job"], ["other", "--also", "job"]),
        (["job", "--also", "other"], ["other"]),
        (["--shared", "job"], ["job"]),
    ],
)
def test_a_run_that_waits_for_the_one_around_it_is_warned(
    holdfast: Holdfast, outer: list[str], inner: list[str]
) -> None:
    script = shlex.join([*CLI, "run", "-w", "3", *inner, "--", "true"])
    done = holdfast.run("run", *outer, "-c", script)
    assert done.returncode == 75
    assert done.stderr.count(INSIDE) == 1


def test_it_is_warned_also_while_another_lock_is_held_by_another_client(holdfast: Holdfast) -> None:
    script = shlex.join([*CLI, "run", "-w", "3", "a", "--also", "job", "--", "true"])
    with library.Client(holdfast.url) as client, client.lock("a"):
        done = holdfast.run("run", "job", "-c", script)
    assert done.returncode == 75
    assert f"'job' is {INSIDE}" in done.stderr


def test_a_run_that_waits_for_another_one_is_not_warned(holdfast: Holdfast) -> None:
    """The run around it shares the lock with it."""
    slots = ["run", "--slots", "2", "-w", "2", "job"]
    with library.Client(holdfast.url) as client, client.semaphore("job", 2):
        done = holdfast.run(*slots, "-c", shlex.join([*CLI, *slots, "--", "true"]))
    assert done.returncode == 75
    assert INSIDE not in done.stderr


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
