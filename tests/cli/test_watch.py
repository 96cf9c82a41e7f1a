"""`holdfast watch`: what it shows, its keys, and that it breaks only what the operator meant."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import textual.screen
from textual.pilot import Pilot
from textual.widgets import Input

from holdfast import Client, LockLost
from holdfast.breaking import Audit
from holdfast.cli.watch import View
from holdfast.cli.watch.table import Row
from holdfast.lab.servers.redis import RedisServer

from .console import console
from .processes import PATIENCE, Holdfast, eventually

SHELL = ["/bin/sh", "-c", 'stty cols 120 rows 30; "$@"; echo "code $?"; stty -a', "sh"]
WATCH = [sys.executable, "-m", "holdfast.cli", "watch"]
MEMORY = "memory://watch"


class Screen:
    """The view, its keyboard, and the text on it."""

    def __init__(self, pilot: Pilot[None], view: View) -> None:
        self._pilot, self.view = pilot, view

    @property
    def text(self) -> str:
        strips = self.view.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)

    @property
    def names(self) -> list[str]:
        """The names of the rows, in order."""
        return [row.info.name for row in self.view._table.held]

    async def press(self, *keys: str) -> None:
        await self._pilot.press(*keys)

    async def type(self, *lines: str) -> None:
        """Type each where the cursor is, and Enter."""
        for text in lines:
            line = self.view.screen.focused
            assert isinstance(line, Input)
            line.insert_text_at_cursor(text)
            await self._pilot.press("enter")

    async def resize(self, width: int) -> None:
        await self._pilot.resize_terminal(width, 30)

    async def until(self, condition: Callable[[], object]) -> None:
        give_up_at = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < give_up_at, f"never came true, on the screen:\n{self.text}"
            await self._pilot.pause(0.01)

    async def shows(self, *texts: str) -> None:
        await self.until(lambda: all(text in self.text for text in texts))

    async def tells(self, text: str) -> None:
        """The notifications are wrapped on the screen."""
        told = self.view._notifications
        await self.until(lambda: any(text in each.message for each in told))


@asynccontextmanager
async def watching(client: Client, prefix: str = "") -> AsyncIterator[Screen]:
    view = View(client, prefix, 0.2, Audit())
    async with view.run_test(size=(120, 30), notifications=True) as pilot:
        yield Screen(pilot, view)


def play(scene: Callable[[Client], Coroutine[Any, Any, None]], url: str = MEMORY) -> None:
    with Client(url, label="blue fleet") as client:
        asyncio.run(scene(client))


def test_what_it_shows() -> None:
    async def scene(client: Client) -> None:
        async with watching(client) as screen:
            await screen.shows("no lock is held", MEMORY, "answered")
            with Client(MEMORY) as other, client.lock("invoice:42", ttl=30) as lease:
                slots = [each.semaphore("gpu", 5) for each in (client, other)]
                with slots[0], slots[1], client.rwlock("catalogue").read:
                    await screen.shows(
                        "3 locks, 4 holders", "semaphore 2/5", "read lock", "(blue fleet)"
                    )
                    await screen.shows(f"pid {os.getpid()}", "30 s", "━", f" {lease.fence} ")
                    assert screen.names == ["catalogue", "gpu", "gpu", "invoice:42"]
            await screen.shows("no lock is held", "0 locks")

    play(scene)


def test_waiters() -> None:
    async def scene(client: Client) -> None:
        with Client(MEMORY) as other:
            with client.lock("busy"):
                waiting = asyncio.create_task(asyncio.to_thread(other.lock("busy").acquire))
                async with watching(client) as screen:
                    await screen.shows("1 ████████")
                    await screen.press("enter")
                    await screen.shows("waited  >", " s without a break")
            lease = await waiting
            assert lease is not None
            lease.release()

    play(scene)


def test_only_a_prefix() -> None:
    async def scene(client: Client) -> None:
        with client.lock("a:1"), client.lock("b:1"):
            async with watching(client, "b:") as screen:
                await screen.until(lambda: screen.names == ["b:1"])

    play(scene)


def test_filter() -> None:
    async def scene(client: Client) -> None:
        with Client(MEMORY, label="green") as other, client.lock("backup"), client.lock("Report"):
            lease = other.lock("nightly").acquire()
            if lease:
                async with watching(client) as screen:
                    await screen.until(lambda: len(screen.names) == 3)
                    await screen.press("slash")
                    await screen.type("REP")
                    await screen.until(lambda: screen.names == ["Report"])
                    await screen.shows("1 shown (filter: REP)")
                    await screen.press("escape", "slash")
                    await screen.type("green")
                    await screen.until(lambda: screen.names == ["nightly"])
                    await screen.press("escape", "slash", *"bq")
                    await screen.shows("no lock matches the filter")
                    await screen.press("escape")
                    await screen.until(lambda: len(screen.names) == 3)

    play(scene)


def test_sort() -> None:
    async def scene(client: Client) -> None:
        with client.lock("b", ttl=60), client.lock("a", ttl=20), client.lock("c", ttl=40):
            async with watching(client) as screen:
                await screen.until(lambda: screen.names == ["a", "b", "c"])
                await screen.press("r")
                await screen.shows("NAME ▼")
                assert screen.names == ["c", "b", "a"]
                await screen.press("r", "s", "s", "s", "s")
                await screen.shows("LEFT ▲")
                assert screen.names == ["a", "c", "b"]

    play(scene)


def test_the_cursor_stays_on_its_lock() -> None:
    async def scene(client: Client) -> None:
        with client.lock("m"), client.lock("z"):
            async with watching(client) as screen:
                await screen.until(lambda: screen.names == ["m", "z"])
                await screen.press("down", "down", "down")
                with client.lock("a"):
                    await screen.until(lambda: screen.names == ["a", "m", "z"])
                    assert selected(screen).info.name == "z"
                    await screen.press("home")
                    assert selected(screen).info.name == "a"
                await screen.until(lambda: screen.names == ["m", "z"])
                assert selected(screen).info.name == "m"

    play(scene)


def test_one_lock_and_its_history() -> None:
    async def scene(client: Client) -> None:
        async with watching(client) as screen:
            await screen.shows("no lock is held")
            lease = client.lock("nightly").acquire()
            assert lease is not None
            await screen.until(lambda: screen.names == ["nightly"])
            await screen.press("enter")
            await screen.shows("held by", lease.holder, "waiters 0", "acquired")
            lease.release()
            await screen.shows("free", "ended")
            await screen.press("escape")
            await screen.shows("no lock is held")

    play(scene)


def test_break() -> None:
    async def scene(client: Client) -> None:
        async with watching(client) as screen:
            with Client(MEMORY) as other:
                lease = other.lock("nightly").acquire()
                assert lease is not None
                await screen.until(lambda: screen.names == ["nightly"])
                await screen.press("b")
                await screen.shows("does not stop the holder", f"fence    {lease.fence}", "pid")
                await screen.type("nightl")
                await screen.shows("That is not its name")
                assert client.inspect("nightly")
                await screen.press("escape", "b")
                await screen.shows("does not stop the holder")
                await screen.type("nightly")
                await screen.shows("And why?")
                await screen.type(" ")
                assert client.inspect("nightly")
                await screen.type("it hangs")
                await screen.tells("nightly: broken: it is free")
                assert client.inspect("nightly") is None
                [line] = screen.view.broken
                assert "broke nightly, held by" in line
                assert lease.holder not in line

    play(scene)


def test_what_changed_hands_is_not_broken() -> None:
    async def scene(client: Client) -> None:
        async with watching(client) as screen:
            with client.lock("nightly"):
                await screen.until(lambda: screen.names == ["nightly"])
                await screen.press("b")
                await screen.shows("does not stop the holder")
            with client.lock("nightly"):
                await screen.type("nightly", "it hangs")
                await screen.tells("that holder does not hold it, another client does")
                assert client.inspect("nightly")
                await screen.press("b")
                await screen.shows("does not stop the holder")
            await screen.type("nightly", "it hangs")
            await screen.tells("not broken: it is free")
            assert screen.view.broken == []

    play(scene)


def test_break_takes_one_share_alone() -> None:
    async def scene(client: Client) -> None:
        async with watching(client) as screen:
            leases = [client.semaphore("gpu", 5).acquire() for _ in range(2)]
            await screen.until(lambda: screen.names == ["gpu", "gpu"])
            await screen.press("enter")
            await screen.shows("semaphore 2/5")
            await screen.press("b")
            await screen.shows("from this holder alone; 1 more keep it")
            await screen.type("gpu", "it hangs")
            await screen.tells("gpu: broken: ")
            info = client.inspect("gpu")
            assert info is not None
            assert len(info.members) == 1
            await screen.tells("its other holders keep it")
            for lease in leases:
                assert lease is not None
                if lease.holder == info.holder:
                    lease.release()
                else:
                    with pytest.raises(LockLost):
                        lease.release()

    play(scene)


def test_hostile_names_are_only_text() -> None:
    name = "\x1b[31m\n[red]evil[/red] [@click=app.quit]x[/] \u202e日本"
    shown = "\\x1b[31m\\n[red]evil[/red] [@click=app.quit]x[/] \\u202e日本"

    async def scene(client: Client) -> None:
        with Client(MEMORY, label="[bold]\x07[/nonsense]") as other:
            lease = other.lock(name).acquire()
            async with watching(client) as screen:
                assert lease is not None
                await screen.shows("evil")
                assert shown[:20] in screen.text
                await screen.press("enter")
                await screen.shows(shown, "[bold]\\x07[/nonsense]")
                await screen.press("b")
                await screen.shows(f"Break {shown}?")
                await screen.type(shown, "it hangs")
                await screen.tells("broken: it is free")
                assert "\x1b" not in screen.text
                assert "\u202e" not in screen.text
        assert client.inspect(name) is None

    play(scene)


def test_the_servers_are_examined() -> None:
    async def scene(client: Client) -> None:
        async with watching(client) as screen:
            await screen.press("e")
            await screen.shows("note", "a waiter had the lock")
            await screen.press("escape")
            await screen.shows("no lock is held")
        with RedisServer() as server, Client(server.url) as there:
            async with watching(there) as screen:
                await screen.press("e")
                await screen.shows(f"{server.address}  ", " ms, clock ", " ± ")

    play(scene)


def test_an_engine_that_goes_away() -> None:
    async def scene(client: Client) -> None:
        with RedisServer() as server, Client(server.url) as there:
            lease = there.lock("nightly", ttl=3600, renew=False).acquire()
            async with watching(there) as screen:
                assert lease is not None
                await screen.shows("nightly", "answered")
                server.kill()
                await screen.shows("unreachable, last answer", "trying again", "nightly")
                server.start()
                await screen.shows("answered", "no lock is held")

    play(scene)


def test_an_engine_that_does_not_answer_does_not_delay_the_keys() -> None:
    async def scene(client: Client) -> None:
        with RedisServer() as server, Client(server.url) as there:
            leases = [there.lock(name).acquire() for name in "ab"]
            if all(leases):
                async with watching(there) as screen:
                    await screen.until(lambda: screen.names == ["a", "b"])
                    server.freeze()
                    await screen.press("r")
                    await screen.shows("NAME ▼")
                    assert screen.names == ["b", "a"]
                server.thaw()

    play(scene)


def test_many_locks_come_and_go() -> None:
    """All can be reached; the last row is right when there are fewer."""

    async def scene(client: Client) -> None:
        leases = [client.lock(f"job:{n:03}").acquire() for n in range(300)]
        async with watching(client) as screen:
            await screen.shows("300 locks, 300 holders", "job:000")
            await screen.press("end")
            await screen.shows("job:299")
            for lease in leases[3:]:
                assert lease
                lease.release()
            await screen.shows("3 locks, 3 holders", "job:002")
            assert "job:299" not in screen.text
            with client.lock("a-name-that-is-wider"):
                await screen.shows("a-name-that-is-wider")
            await screen.until(lambda: "a-name" not in screen.text)
            await screen.press("slash")
            await screen.type("001")
            await screen.until(lambda: "job:002" not in screen.text)
        for lease in leases[:3]:
            assert lease
            lease.release()

    play(scene)


def test_keys_that_are_pressed_while_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are commands: the filter, which is not on the screen, never gets them."""
    focused: list[object] = []
    focus = textual.screen.Screen.set_focus

    def noted(screen: Any, widget: Any, *args: Any, **options: Any) -> None:
        focused.append(widget)
        focus(screen, widget, *args, **options)

    monkeypatch.setattr(textual.screen.Screen, "set_focus", noted)

    async def scene(client: Client) -> None:
        async with watching(client) as screen:
            await screen.until(lambda: screen.view._table in focused)
            assert screen.view._filter not in focused

    play(scene)


def test_a_narrow_terminal() -> None:
    """Names and holders give way to what is live; then bars and fences."""

    async def scene(client: Client) -> None:
        with client.lock("n" * 100, ttl=60):
            async with watching(client) as screen:
                await screen.shows("nnnn…", "blue fl", " ≤", "60 s ━", "FENCE", "WAITERS", " 0 ")
                await screen.resize(80)
                await screen.until(lambda: "FENCE" not in screen.text)
                await screen.shows("nnnn…", "blue", " ≤", " 60 s", "WAITERS", " 0 ")
                assert "━" not in screen.text
                for width in (20, 5, 120):
                    await screen.resize(width)
                await screen.shows("FENCE")

    play(scene)


def test_in_a_real_terminal(holdfast: Holdfast) -> None:
    holdfast.hold("nightly")
    with console([*SHELL, *WATCH], {"HOLDFAST_URL": holdfast.url, "TERM": "xterm"}) as screen:
        screen.expect("nightly")
        screen.type("q")
        screen.expect("\x1b[?1049l")
        screen.expect("code 0")
        settings = screen.expect(" echoe ")
        assert " icanon " in settings
        assert " echo" in settings


PATIENT = """
import holdfast.core.queries, holdfast.drivers.threads
from holdfast.cli import main
holdfast.core.queries.NODE_TIMEOUT = holdfast.drivers.threads.CLOSE_TIMEOUT = 3600.0
main()
"""
"""The program, which would wait for an hour for an engine that does not answer."""


def test_it_ends_at_once_if_the_engine_is_frozen() -> None:
    with RedisServer() as server, Client(server.url) as client, client.lock("nightly", ttl=600):
        watch = [sys.executable, "-c", PATIENT, "watch", "--every", "0.1"]
        with console([*SHELL, *watch], {"HOLDFAST_URL": server.url, "TERM": "xterm"}) as screen:
            screen.expect("nightly")
            server.freeze()
            screen.expect("answered 2 s ago")  # it asks again
            screen.type("q")
            screen.expect("\x1b[?1049l")
            screen.expect("code 0")
        server.thaw()


def test_a_break_under_way_is_written_down_before_it_ends(tmp_path: Path) -> None:
    audit = tmp_path / "audit"
    with RedisServer() as server, Client(server.url) as client:
        lease = client.lock("nightly", ttl=600, renew=False).acquire()
        argv = [*SHELL, sys.executable, "-c", PATIENT, "watch", "--audit-log", str(audit)]
        with console(argv, {"HOLDFAST_URL": server.url, "TERM": "xterm"}) as screen:
            screen.expect("nightly")
            screen.type("b")
            screen.expect("Type the name")
            server.freeze()
            screen.type("nightly\r")
            screen.expect("And why?")
            screen.type("it hangs\r")
            screen.expect("Quit")
            screen.type("q")
            screen.expect("\x1b[?1049l")
            server.thaw()
            screen.expect("broke nightly")
        assert json.loads(audit.read_text())["broken"] is True
        with pytest.raises(LockLost):
            lease.release() if lease else None


def test_what_was_broken_is_written_down(holdfast: Holdfast, tmp_path: Path) -> None:
    job, audit = holdfast.hold("nightly", "--ttl", "3"), tmp_path / "audit"
    command = [*WATCH, "--audit-log", str(audit)]
    with console(command, {"HOLDFAST_URL": holdfast.url, "TERM": "xterm"}) as screen:
        screen.expect("nightly")
        screen.type("b")
        screen.expect("Type the name")
        screen.type("nightly\r")
        screen.expect("And why?")
        screen.type("it hangs\r")
        eventually(lambda: job.poll() is not None)
        screen.expect("broken: it is free")
        screen.type("q")
        screen.expect("broke nightly, held by")
        assert screen.expect_exit() == 0
    assert job.returncode == 70
    record = json.loads(audit.read_text())
    assert (record["name"], record["reason"], record["broken"]) == ("nightly", "it hangs", True)
    assert record["user"]
    assert [each["pid"] for each in record["holders"]] == [job.pid]


def test_usage_errors(holdfast: Holdfast) -> None:
    no_terminal, no_time = holdfast.ask(["watch"], ["watch", "--every", "0"])
    assert no_terminal[0] == no_time[0] == 64
    assert "holdfast ls --json" in no_terminal[2]
    with console([*WATCH, "--audit-log", "/missing/audit"], {}) as screen:
        screen.expect("--audit-log: ")
        assert screen.expect_exit() == 64


def test_without_the_extra_it_prints_what_to_install(holdfast: Holdfast) -> None:
    without = "import sys; sys.modules['textual'] = None; from holdfast.cli import main; main()"
    with console([sys.executable, "-c", without, "watch"], {}) as screen:
        screen.expect("pip install 'holdfast[watch]'")
        assert screen.expect_exit() == 69
    help_text = subprocess.run([sys.executable, "-c", without, "--help"], capture_output=True)
    assert b"watch" in help_text.stdout


def selected(screen: Screen) -> Row:
    row = screen.view._table.selected
    assert row is not None
    return row
