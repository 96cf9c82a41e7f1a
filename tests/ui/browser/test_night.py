"""A night of an operator: find the holder that is stuck, understand it, break its lock, and prove
afterwards who did."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import holdfast
from tests.equipment.servers.masters import RedisMasters
from tests.patience import wait_for

from .conftest import Page

ORDERS = 10_000
UPTIME, AHEAD = 100, 90
STUCK = "nightly-backup"


@contextmanager
def command(*words: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """`holdfast` in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast.cli", *words], stdout=subprocess.PIPE, text=True, **options
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


async def take_orders(url: str) -> None:
    """They end in an hour: this program is killed."""
    client, taken = holdfast.AsyncClient(url), []
    for first in range(0, ORDERS, 100):
        locks = [client.lock(f"order:{first + number}", ttl=3600) for number in range(100)]
        taken += await asyncio.gather(*(lock.acquire() for lock in locks))
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_holder_is_stuck_while_nodes_fail(browser: Any, tmp_path: Path) -> None:
    audit, done = tmp_path / "audit.jsonl", tmp_path / "done"
    with ExitStack() as stack:
        masters = stack.enter_context(RedisMasters(count=5, own_clock=True))
        for server in masters.servers:  # they seem to run for a while
            server.clock.jump(-UPTIME)
            server.kill()
            server.start()
            server.clock.jump(UPTIME)
        _, _, wrong, restarted, stopped = masters.servers
        wrong.clock.jump(AHEAD)
        subprocess.run(
            [sys.executable, "-m", __name__, f"{masters.url}?restart_guard=off&max_ttl=3600"],
            check=False,
        )
        url = f"{masters.url}?max_ttl=60"
        client = stack.enter_context(holdfast.Client(url))
        job = stack.enter_context(
            command("run", "--url", url, "--ttl", "30", STUCK, "--", "sleep", "3600")
        )
        wait_for(lambda: client.inspect(STUCK))
        stack.enter_context(
            command("run", "--url", url, "--wait", "600", STUCK, "--", "touch", str(done))
        )
        stopped.freeze()
        restarted.kill()
        restarted.start()
        ui = stack.enter_context(
            command("ui", "--url", url, "--port", "0", "--allow-break", "--audit-log", str(audit))
        )
        assert ui.stdout
        link = ui.stdout.readline().strip()
        page = Page(browser, link.partition("?")[0])
        page.driver.get(link)

        page.find("#examine").click()
        page.shows("none to spare")
        text = page.text()
        assert f"{stopped.address}" in text
        assert "does not answer: " in text
        assert "restarted, no vote for " in text
        assert f"{AHEAD:.0f}" in text
        # On a slow machine some are on a majority of nodes only, with the one that forgot them.
        page.until(r"/(9,\d\d\d|10,001) locks/.test(document.body.innerText)")

        page.find("#search").send_keys("nightly")
        page.until("document.querySelectorAll('#rows tr').length == 1")
        page.find("#rows tr").click()
        page.shows(str(job.pid))
        page.shows("Break …")
        page.driver.save_screenshot(str(tmp_path / "night.png"))
        page.find("#holders button").click()
        page.press(STUCK)
        page.find("#reason").send_keys("hangs since midnight; its host is gone")
        page.find("#confirm").click()
        page.shows("Broken: it is free for the next holder.")

        assert job.wait(60) == 70  # it was told
        wait_for(done.exists)  # the next one has run
        [record] = map(json.loads, audit.read_text().splitlines())
        assert (record["name"], record["broken"]) == (STUCK, True)
        assert record["reason"] == "hangs since midnight; its host is gone"
        assert [holder["pid"] for holder in record["holders"]] == [job.pid]
        assert page.complaints() == []

        with command("doctor", url) as doctor:
            said, _ = doctor.communicate(timeout=60)
        assert doctor.returncode == 1
        for finding in (
            f"{stopped.address}: it does not answer",
            f"{restarted.address}: it has restarted",
            f"{wrong.address}: its clock is {AHEAD}.0 s ahead",
        ):
            assert finding in said


if __name__ == "__main__":
    asyncio.run(take_orders(sys.argv[1]))
