"""`holdfast elect`: a command runs while its candidate leads, term after term."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast as library
from holdfast.cli.http import Handler, Server
from holdfast.lab.servers.redis import RedisServer

from .processes import PATIENCE, Holdfast, eventually, finish, gone, line_of

SHOW = 'echo "$HOLDFAST_NAME|$HOLDFAST_FENCE|$$"'
"""What follows is `exec`: what a shell gets just before it starts a command, it may ignore."""


def leader(holdfast: Holdfast) -> library.Leader | None:
    with library.Client(holdfast.url) as client:
        return client.election("boss").leader()


def facts(process: subprocess.Popen[str]) -> tuple[int, int]:
    """Of the next term: its number, and the command's pid."""
    name, fence, pid = line_of(process.stdout).split("|")
    assert name == "boss"
    return int(fence), int(pid)


def test_the_command_runs_while_it_leads(holdfast: Holdfast) -> None:
    process = holdfast.start("elect", "boss", "--value", "ann:80", "-c", f"{SHOW}; exec sleep 600")
    term, pid = facts(process)
    found = leader(holdfast)
    assert found
    assert (found.value, found.term) == ("ann:80", term)
    process.send_signal(signal.SIGTERM)
    assert finish(process)[0] == -signal.SIGTERM
    assert gone(pid)
    assert leader(holdfast) is None


@pytest.mark.parametrize("code", [3, 69, 127])
def test_it_campaigns_again_when_the_command_has_ended(holdfast: Holdfast, code: int) -> None:
    """Also if `elect` itself would end with this code."""
    process = holdfast.start("elect", "boss", "-c", f"{SHOW}; exit {code}")
    first, second, third = facts(process)[0], facts(process)[0], facts(process)[0]
    assert first < second < third
    process.send_signal(signal.SIGTERM)
    finish(process)
    with library.Client(holdfast.url) as client:
        assert client.inspect("boss") is None


def test_it_sees_the_end_of_a_term_whatever_it_was_started_by(holdfast: Holdfast) -> None:
    """As a program does that ignores SIGCHLD, so as not to wait for what it has started."""

    def ignore() -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    process = holdfast.start("elect", "boss", "-c", SHOW, preexec_fn=ignore)
    first, second = facts(process)[0], facts(process)[0]
    assert first < second
    process.send_signal(signal.SIGTERM)
    finish(process)


def test_it_campaigns_again_after_a_loss(holdfast: Holdfast) -> None:
    process = holdfast.start("elect", "--ttl", "2", "boss", "-c", f"{SHOW}; exec sleep 600")
    term, pid = facts(process)
    with library.Client(holdfast.url) as client:
        assert client.break_lock("boss")
    later, _ = facts(process)
    assert later > term
    assert gone(pid)
    process.send_signal(signal.SIGTERM)
    assert finish(process)[0] == -signal.SIGTERM


def test_it_campaigns_again_when_its_term_was_killed(holdfast: Holdfast) -> None:
    script = f"{SHOW}; kill -KILL $PPID; exec sleep 600"
    process = holdfast.start("elect", "--ttl", "2", "boss", "-c", script)
    term, pid = facts(process)
    later, _ = facts(process)
    assert later > term
    assert gone(pid)
    process.send_signal(signal.SIGTERM)
    finish(process)


def test_another_candidate_takes_over(holdfast: Holdfast) -> None:
    ann = holdfast.start("elect", "boss", "--value", "ann", "-c", f"{SHOW}; exec sleep 600")
    term, pid = facts(ann)
    ben = holdfast.start("elect", "boss", "--value", "ben", "-c", f"{SHOW}; exec sleep 600")
    ann.send_signal(signal.SIGINT)
    assert finish(ann)[0] == -signal.SIGINT
    later, _ = facts(ben)
    found = leader(holdfast)
    assert found
    assert (found.value, later > term, gone(pid)) == ("ben", True, True)


def test_a_command_that_a_nameless_signal_ended_is_followed_by_the_next(holdfast: Holdfast) -> None:
    process = holdfast.start("elect", "-v", "boss", "-c", f"{SHOW}; kill -35 $$")
    term, _ = facts(process)
    later, _ = facts(process)
    assert later > term
    process.send_signal(signal.SIGTERM)
    assert "(signal 35)" in finish(process)[2]


@pytest.mark.parametrize("signum", [signal.SIGWINCH, signal.SIGURG])
def test_a_signal_that_ends_no_process_does_not_end_the_election(
    holdfast: Holdfast, signum: signal.Signals
) -> None:
    """Between two terms, either: a window may change its size at any time."""
    process = holdfast.start("elect", "-v", "boss", "-c", SHOW)
    term, _ = facts(process)
    for _ in range(5):  # on a busy machine, some come during the next term
        while "campaigning again" not in line_of(process.stderr):
            pass
        process.send_signal(signum)
        later, _ = facts(process)
    assert later > term
    process.send_signal(signal.SIGTERM)
    finish(process)


def test_a_candidate_that_waits_ends_by_the_signal(holdfast: Holdfast) -> None:
    with library.Client(holdfast.url) as client, client.lock("boss"):
        process = holdfast.start("elect", "-v", "boss", "-c", SHOW)
        assert "waiting for 'boss'" in line_of(process.stderr)
        process.send_signal(signal.SIGTERM)
        code, out, _ = finish(process)
        assert (code, out) == (-signal.SIGTERM, "")


def test_a_terminal_that_is_closed_ends_the_election(holdfast: Holdfast) -> None:
    process = holdfast.start("elect", "boss", "-c", f"{SHOW}; exec sleep 600")
    _, pid = facts(process)
    process.send_signal(signal.SIGHUP)
    assert finish(process)[0] == -signal.SIGHUP
    assert gone(pid)


def test_a_command_that_reloads_at_a_hang_up_does_not_end_the_election(holdfast: Holdfast) -> None:
    script = f"trap 'echo reloaded; exit 3' HUP; {SHOW}; while :; do sleep 0.01; done"
    process = holdfast.start("elect", "boss", "-c", script)
    term, _ = facts(process)
    process.send_signal(signal.SIGHUP)
    assert line_of(process.stdout) == "reloaded"
    later, _ = facts(process)
    assert later > term
    process.send_signal(signal.SIGTERM)
    finish(process)


def test_the_command_dies_with_holdfast(holdfast: Holdfast) -> None:
    process = holdfast.start("elect", "boss", "-c", f"{SHOW}; exec sleep 600")
    _, pid = facts(process)
    process.kill()
    eventually(lambda: gone(pid))


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["boss", "--", "no-such-command"], 127),
        (["boss", "--", "/"], 126),
        (["--http", "192.0.2.1:1", "boss", "true"], 64),
        (["--url", "redis://127.0.0.1:1", "--ttl", "0.2", "boss", "true"], 69),
        (["--url", "redlock://h1,h2,h3", "--value", "me", "boss", "true"], 64),
    ],
)
def test_when_it_cannot_go_on(holdfast: Holdfast, args: list[str], code: int) -> None:
    assert holdfast.run("elect", *args).returncode == code


class TestHttp:
    @pytest.fixture
    def address(self, holdfast: Holdfast) -> Iterator[str]:
        """Of a candidate that waits."""
        with library.Client(holdfast.url) as client, client.lock("boss"):
            process = holdfast.start("elect", "boss", "--http", "127.0.0.1:0", "-c", SHOW)
            yield line_of(process.stderr).split()[3]
            process.send_signal(signal.SIGTERM)
            assert finish(process)[0] == -signal.SIGTERM

    def get(self, url: str) -> Any:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            assert answer.headers["Content-Type"] == "application/json"
            return json.load(answer)

    def is_known(self, url: str) -> Any:
        """None until something was observed: 503."""
        try:
            return self.get(url)
        except urllib.error.HTTPError:
            return None

    def test_json(self, holdfast: Holdfast, address: str) -> None:
        """The lock is held, and not by a candidate."""
        assert eventually(lambda: self.is_known(address)) == {"name": "boss", "leader": None}
        with pytest.raises(urllib.error.HTTPError, match="404"):
            self.get(address + "else")

    def test_events(self, holdfast: Holdfast) -> None:
        script = f"{SHOW}; exec sleep 600"
        options = ["--http", "127.0.0.1:0", "--value", "ann"]
        process = holdfast.start("elect", "boss", *options, "-c", script)
        address = line_of(process.stderr).split()[3]
        term, _ = facts(process)
        with urllib.request.urlopen(address + "events", timeout=PATIENCE) as stream:
            assert stream.headers["Content-Type"] == "text/event-stream"
            seen = self.until(stream, term)
            assert (seen["value"], seen["host"]) == ("ann", socket.gethostname())
            with library.Client(holdfast.url) as client:
                client.break_lock("boss")
            later, _ = facts(process)
            assert self.until(stream, later)["term"] > term
        assert self.get(address)["leader"]["term"] == later
        process.send_signal(signal.SIGTERM)
        assert finish(process)[0] == -signal.SIGTERM

    def test_a_stream_that_is_idle(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A comment keeps proxies from closing it."""
        monkeypatch.setattr("holdfast.cli.http.KEEP_ALIVE", 0.01)
        with Server(socket.create_server(("127.0.0.1", 0)), "boss") as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            address = f"http://127.0.0.1:{server.socket.getsockname()[1]}/events"
            with urllib.request.urlopen(address, timeout=PATIENCE) as stream:
                lines = [stream.readline() for _ in range(4)]
            assert lines[0] == b"event: unknown\n"
            assert lines[3] == b": still here\n"
            server.shutdown()

    @pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGQUIT])
    def test_a_signal_to_all_its_processes(
        self, holdfast: Holdfast, signum: signal.Signals
    ) -> None:
        """As systemd sends TERM, and a terminal QUIT: the server does not end on its own."""
        script = f"{SHOW}; exec sleep 600"
        process = holdfast.start("elect", "boss", "--http", "127.0.0.1:0", "-c", script)
        _, pid = facts(process)
        os.killpg(process.pid, signum)
        code, _, errors = finish(process)
        assert (code, gone(pid)) == (-signum, True)
        assert "the HTTP server has ended" not in errors

    def test_a_server_that_has_ended(self, holdfast: Holdfast) -> None:
        """Nobody would be told of the leader: it ends."""
        script = f"{SHOW}; exec sleep 600"
        process = holdfast.start("elect", "boss", "--http", "127.0.0.1:0", "-c", script)
        _, pid = facts(process)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)  # it was started before the first term
        assert (finish(process)[0], gone(pid)) == (69, True)

    def test_a_reader_that_resets_its_connection(self, holdfast: Holdfast) -> None:
        """As the health checks of some load balancers do: nothing is printed."""
        with library.Client(holdfast.url) as client, client.lock("boss"):
            process = holdfast.start("elect", "boss", "--http", "127.0.0.1:0", "-c", SHOW)
            address = line_of(process.stderr).split()[3]
            port = int(address.rpartition(":")[2].rstrip("/"))
            for request in (b"", b"GET / HT", b"GET / HTTP/1.1\r\n\r\n"):
                with socket.create_connection(("127.0.0.1", port)) as reader:
                    reader.sendall(request)
                    reader.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            eventually(lambda: self.is_known(address))
            process.send_signal(signal.SIGTERM)
            assert "Traceback" not in finish(process)[2]

    def test_an_engine_that_does_not_answer(self) -> None:
        """The leader is unknown when its lease may have expired, and not after another ttl."""
        board = Server(socket.create_server(("127.0.0.1", 0)), "boss")
        with board, RedisServer() as server, library.Client(server.url, ttl=3600) as client:
            observer = threading.Thread(target=board.observe, args=(client, 0.5))
            observer.start()
            with client.election("boss", value="ann", ttl=60).campaign():
                eventually(lambda: "ann" in board.last[1])
            eventually(lambda: "null" in board.last[1])
            server.freeze()
            eventually(lambda: board.last[0] == 503)
            server.thaw()
            eventually(lambda: board.last[0] == 200)
        observer.join()

    def test_a_reader_that_sends_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It does not keep its thread for ever."""
        assert Handler.timeout is not None
        monkeypatch.setattr(Handler, "timeout", 0.1)
        with Server(socket.create_server(("127.0.0.1", 0)), "boss") as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            with socket.create_connection(("127.0.0.1", server.socket.getsockname()[1])) as reader:
                assert reader.recv(1) == b""
            server.shutdown()

    def until(self, stream: Any, term: int) -> Any:
        """Read events up to the one with this term."""
        for line in stream:
            if line.startswith(b"data: "):
                found = json.loads(line.removeprefix(b"data: ")).get("leader")
                if found and found["term"] == term:
                    return found
        raise AssertionError("the stream has ended")
