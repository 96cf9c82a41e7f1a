"""What `holdfast run` does for its command, and says of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

import holdfast as library

from .processes import Holdfast, eventually, finish, line_of

SHOW = 'echo "$HOLDFAST_NAME|$HOLDFAST_HOLDER|$HOLDFAST_FENCE"'


def test_the_command_finds_its_lease_in_the_environment(holdfast: Holdfast) -> None:
    process = holdfast.start("run", "a job", "-c", f"{SHOW}; cat")
    name, holder, fence = line_of(process.stdout).split("|")
    with library.Client(holdfast.url) as client:
        info = client.inspect("a job")
    assert info
    assert (name, holder, fence) == ("a job", info.holder, str(info.fence))
    assert finish(process)[0] == 0


def test_its_label_is_shown(holdfast: Holdfast) -> None:
    process = holdfast.start("run", "job", "--label", "blue fleet", "-c", f"{SHOW}; cat")
    line_of(process.stdout)
    assert "(blue fleet) on" in holdfast.ask(["ls"])[0][1]
    assert finish(process)[0] == 0


@pytest.mark.parametrize(
    ("command", "label"),
    [
        (["--", "/bin/sh", "-c", "echo; cat"], "sh"),
        (["-c", "/bin/echo; cat"], "echo"),
        (["--label", "", "-c", "echo; cat"], ""),
    ],
)
def test_without_a_label_it_has_the_commands_name(
    holdfast: Holdfast, command: list[str], label: str
) -> None:
    process = holdfast.start("run", "job", *command)
    line_of(process.stdout)
    with library.Client(holdfast.url) as client:
        info = client.inspect("job")
    assert info
    assert info.label
    assert (info.label.program, info.label.text) == ("holdfast", label)
    assert finish(process)[0] == 0


def test_it_is_stopped_when_it_has_held_the_lock_for_too_long(holdfast: Holdfast) -> None:
    done = holdfast.run(
        "run", "--max-hold", "1", "--kill-after", "0.5", "job", "--", "sleep", "600"
    )
    assert done.returncode == 70
    assert "ends after --max-hold 1 s" in done.stderr
    assert "was not renewed" not in done.stderr
    assert holdfast.run("run", "--wait", "60", "job", "--", "true").returncode == 0


def test_the_commands_url_is_left_alone(holdfast: Holdfast) -> None:
    """So that a holdfast in the command means the same engine, and can log in."""
    url = "memory://me:secret@place"
    done = holdfast.run("run", "-v", "job", "-c", 'echo "$HOLDFAST_URL"', env={"HOLDFAST_URL": url})
    assert done.stdout == f"{url}\n"
    assert "secret" not in done.stderr
    done = holdfast.run("run", "--url", url, "job", "-c", 'echo "$HOLDFAST_URL"')
    assert done.stdout == f"{holdfast.url}\n"


def test_two_commands_never_run_together(holdfast: Holdfast) -> None:
    """`mkdir` fails if the other one has not yet cleared its own away."""
    script = "mkdir inside && sleep 0.05 && rmdir inside"
    cwd = holdfast.database.parent
    racers = [holdfast.start("run", "job", "-c", script, cwd=cwd) for _ in range(6)]
    assert [finish(racer)[0] for racer in racers] == [0] * 6


def test_stdin_goes_to_the_command(holdfast: Holdfast) -> None:
    process = holdfast.start("run", "job", "--", "cat")
    assert process.communicate("hello", timeout=60)[0] == "hello"


def test_a_descriptor_goes_to_the_command(holdfast: Holdfast) -> None:
    reader, writer = os.pipe()
    script = f"import os; os.write({writer}, b'passed')"
    done = holdfast.run("run", "job", "--", sys.executable, "-c", script, pass_fds=[writer])
    os.close(writer)
    assert done.returncode == 0
    with open(reader) as stream:
        assert stream.read() == "passed"


WAYS = {
    "as documented": ["-w", "5", "job", "--", "printf", "%s,", "-v", "--", "x"],
    "options after the name": ["job", "-w", "5", "--", "printf", "%s,", "-v", "--", "x"],
    "on both sides": ["-q", "job", "-w5", "--", "printf", "%s,", "-v", "--", "x"],
    "without --": ["-w", "5", "job", "printf", "%s,", "-v", "--", "x"],
    "options after the name, without --": ["job", "-w", "5", "printf", "%s,", "-v", "--", "x"],
}


def test_the_commands_words_are_its_own(holdfast: Holdfast) -> None:
    cases = [["run", *args] for args in WAYS.values()]
    assert holdfast.run_each(*cases) == [(0, "-v,--,x,", "")] * len(cases)
    cases = [["run", "job", "-c", "echo $((6*7))"], ["run", "-c", "echo $((6*7))", "job"]]
    assert holdfast.run_each(*cases) == [(0, "42\n", "")] * len(cases)


def test_it_waits_for_its_turn(holdfast: Holdfast) -> None:
    holder = holdfast.hold("job")
    waiter = holdfast.start("run", "-v", "job", "--", "echo", "ran")
    assert line_of(waiter.stderr).startswith("holdfast: waiting for 'job' on sqlite://")
    assert finish(holder)[0] == 0
    code, out, err = finish(waiter)
    assert (code, out) == (0, "ran\n")
    acquired, released = err.splitlines()
    assert acquired.startswith("holdfast: acquired 'job': fence ")
    assert released == "holdfast: released 'job'"


@pytest.mark.parametrize("own", [7, 70, 127])
def test_min_hold_keeps_the_lock_after_the_command(holdfast: Holdfast, own: int) -> None:
    """Also if `run` itself would end with this code."""
    keeper = holdfast.start("run", "--min-hold", "600", "job", "-c", f"echo $$; exit {own}")
    pid = int(line_of(keeper.stdout))
    eventually(lambda: not os.path.exists(f"/proc/{pid}"))
    assert holdfast.run("run", "-n", "job", "--", "true").returncode == 75
    keeper.terminate()
    code, _, err = finish(keeper)
    assert code == own, "the command's own"
    assert "before --min-hold was over" in err
    assert holdfast.run("run", "-n", "job", "--", "true").returncode == 0


def test_min_hold_keeps_no_lock_for_a_command_that_could_not_run(holdfast: Holdfast) -> None:
    done = holdfast.run("run", "--min-hold", "600", "job", "--", "./missing.sh")
    assert done.returncode == 127
    assert holdfast.run("run", "-n", "job", "--", "true").returncode == 0


def test_min_hold_ends(holdfast: Holdfast) -> None:
    began = time.monotonic()
    assert holdfast.run("run", "--min-hold", "0.5", "job", "--", "true").returncode == 0
    assert time.monotonic() - began >= 0.5


def test_nobody_reading_its_messages_is_no_reason_to_stop(holdfast: Holdfast) -> None:
    process = holdfast.start("run", "-v", "job", "-c", "cat; exit 4")
    assert process.stderr
    process.stderr.close()
    process.stderr = None
    assert finish(process)[0] == 4


def test_what_the_command_leaves_running_does_not_keep_the_lock(holdfast: Holdfast) -> None:
    done = holdfast.run("run", "job", "-c", "sleep 600 >/dev/null 2>&1 & echo $!")
    background = int(done.stdout)
    assert done.returncode == 0
    os.kill(background, 9)  # raises if it was gone


def test_nothing_is_left_of_a_run(holdfast: Holdfast) -> None:
    process = holdfast.start("run", "job", "--", "true")
    assert finish(process)[0] == 0
    assert process.pid not in [_session(pid) for pid in os.listdir("/proc") if pid.isdecimal()]


def _session(pid: str) -> int | None:
    try:
        return os.getsid(int(pid))
    except ProcessLookupError:  # a process of another test has ended meanwhile
        return None


@pytest.mark.parametrize("option", [["--shared"], ["--slots", "2"]])
def test_several_at_once(holdfast: Holdfast, option: list[str]) -> None:
    first, second = (holdfast.start("run", "job", *option, "-c", f"{SHOW}; cat") for _ in range(2))
    holders = [line_of(each.stdout).split("|")[1] for each in (first, second)]
    with library.Client(holdfast.url) as client:
        info = client.inspect("job")
    assert info
    assert {member.holder for member in info.members} == set(holders)
    alone = holdfast.run("run", "-n", "job", "true")
    assert alone.returncode == 75
    assert "and 1 other; gave up" in alone.stderr
    third = holdfast.run("run", "-n", *option, "job", "true")
    assert third.returncode == (0 if option == ["--shared"] else 75)
    assert [finish(each)[0] for each in (first, second)] == [0, 0]


@pytest.mark.parametrize(("end", "code"), [("exit 3", 3), ("kill -TERM $$", -15)])
def test_without_standard_streams(holdfast: Holdfast, end: str, code: int) -> None:
    """As some supervisors start it. No other file may take the place of one of them."""
    program = f"{sys.executable} -m holdfast.cli run job -c '{end}'"
    environment = {**os.environ, "HOLDFAST_URL": holdfast.url}
    closed = ["/bin/sh", "-c", f"exec {program} <&- >&- 2>&-"]
    assert subprocess.run(closed, env=environment).returncode == code


def test_several_names(holdfast: Holdfast) -> None:
    show = 'echo "$HOLDFAST_NAME|$HOLDFAST_HOLDER|$HOLDFAST_FENCE|$HOLDFAST_FENCES"'
    with library.Client(holdfast.url) as client:
        with client.lock("b"), client.lock("c"):
            busy = holdfast.run("run", "-n", "c", "--also", "a", "--also", "b", "true")
        process = holdfast.start("run", "b", "--also", "a", "--also", "c", "-c", f"{show}; cat")
        name, holder, fence, fences = line_of(process.stdout).split("|")
        leases = {info.name: info.fence for info in client.leases()}
        assert [info.name for info in client.leases() if info.holder == holder] == ["b"]
        assert (busy.returncode, "'b' is still held" in busy.stderr) == (75, True)
        assert (name, fence, json.loads(fences)) == ("b", str(leases["b"]), leases)
        assert sorted(leases) == ["a", "b", "c"]
        assert finish(process)[0] == 0
        assert list(client.leases()) == []


def test_the_fences_of_a_run_inside_of_another_are_its_own(holdfast: Holdfast) -> None:
    inner = f"{sys.executable} -m holdfast.cli run c -c 'echo $HOLDFAST_FENCES'"
    done = holdfast.run("run", "b", "--also", "a", "-c", inner)
    assert list(json.loads(done.stdout)) == ["c"]


def test_a_loss_of_one_of_several_stops_the_command(holdfast: Holdfast) -> None:
    process = holdfast.start("run", "--ttl", "2", "b", "--also", "a", "-c", f"{SHOW}; sleep 600")
    line_of(process.stdout)
    with library.Client(holdfast.url) as client:
        assert client.break_lock("a")
    code, _, err = finish(process)
    assert (code, "the lease on 'b', 'a' (fence" in err) == (70, True)


@pytest.mark.parametrize(
    "options", [["--shared", "--slots", "2"], ["--also", "b", "--shared"], ["--slots", "0"]]
)
def test_options_that_exclude_each_other(holdfast: Holdfast, options: list[str]) -> None:
    [refused] = holdfast.ask(["run", *options, "job", "true"])
    assert refused[0] == 64
