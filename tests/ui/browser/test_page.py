"""The page, as an operator uses it."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import holdfast
from holdfast.lab.servers.redis import RedisServer
from holdfast.ui import app
from tests.ui.conftest import Hold
from tests.ui.server import TOKEN, serving

from .conftest import Page

ENTER, ESCAPE, DOWN = "\ue007", "\ue00c", "\ue015"


def test_live(client: holdfast.Client, hold: Hold, page: Page) -> None:
    """Locks come, are waited for, and go; the token does not stay in the address."""
    page.open()
    page.shows("No lock is held.")
    assert page.driver.current_url == page.address
    lease = hold(client.lock("nightly", label="blue fleet"))
    page.shows("nightly")
    page.shows("(blue fleet)")
    waiting = threading.Thread(target=hold, args=[client.lock("nightly", label="green fleet")])
    waiting.start()
    page.shows("1 waiting")
    page.until("document.querySelector('#rows polyline').getAttribute('points')")
    wait = "document.querySelector('#rows tr').cells[7].innerText"
    assert page.until(wait)[-2:] == " s"
    page.find("th[data-key=wait] button").click()
    assert page.find("th[data-key=wait]").get_attribute("aria-sort") == "descending"
    page.find("#hot").click()
    assert page.find("th[data-key=heat]").get_attribute("aria-sort") == "descending"
    page.find("#rows tr").click()
    page.until("/Waited for\\n(> )?\\d+ s/.test(document.getElementById('facts').innerText)")
    page.press(ESCAPE)
    page.shows("1 waiting")
    lease.release()
    waiting.join()
    page.shows("(green fleet)")
    page.find("#rows tr").click()
    page.until("document.querySelectorAll('#history tr').length >= 2")
    assert "acquired" in page.text()
    client.break_lock("nightly")
    page.shows("It is free.")
    page.press(ESCAPE)
    page.shows("No lock is held.")
    assert page.complaints() == []


def test_search_sort_and_keys(client: holdfast.Client, hold: Hold, page: Page) -> None:
    for name in ("apple", "banana", "cherry"):
        hold(client.lock(name))
    page.open()
    page.shows("3 locks")
    assert page.names() == ["apple", "banana", "cherry"]
    page.find("th[data-key=name] button").click()
    assert page.names() == ["cherry", "banana", "apple"]
    assert page.find("th[data-key=name]").get_attribute("aria-sort") == "descending"
    page.press("/")
    page.press("an")
    assert page.names() == ["banana"]
    page.shows("1 of 3 locks")
    page.press(ESCAPE)
    assert len(page.names()) == 3
    page.press(DOWN, DOWN)
    assert "banana" in page.find("tr[aria-selected=true]").text
    page.press(ENTER)
    page.shows("History")
    assert page.find("#lock-name").text == "banana"
    page.driver.back()
    page.shows("3 locks")


def test_break_with_confirmation(
    client: holdfast.Client, hold: Hold, page: Page, audit: Path
) -> None:
    lease = hold(client.lock("stuck", renew=False))
    page.open()
    page.shows("stuck")
    page.find("#rows tr").click()
    page.shows("Break …")
    page.find("#holders button").click()
    page.shows("It does not stop the holder.")
    confirm = page.find("#confirm")
    assert not confirm.is_enabled()
    page.press("stuc")
    page.find("#reason").send_keys("it hangs since midnight")
    assert not confirm.is_enabled()
    page.find("#typed").send_keys("k")
    assert confirm.is_enabled()
    confirm.click()
    page.shows("Broken: it is free for the next holder. The holder was not stopped")
    assert client.inspect("stuck") is None
    record = json.loads(audit.read_text())
    assert record["fence"] == str(lease.fence)
    assert record["reason"] == "it hangs since midnight"
    page.find("#cancel").click()
    page.shows("It is free.")
    assert page.complaints() == []


def test_a_lock_that_changed_hands_is_not_broken(
    client: holdfast.Client, hold: Hold, page: Page
) -> None:
    first = hold(client.lock("busy"))
    page.open()
    page.shows("busy")
    page.find("#rows tr").click()
    page.shows("Break …")
    page.find("#holders button").click()
    first.release()
    second = hold(client.lock("busy"))
    page.press("busy")
    page.find("#reason").send_keys("too late")
    page.find("#confirm").click()
    page.shows("that holder does not hold it, another client does")
    second.ensure_held()
    assert client.inspect("busy")


def test_refused_without_the_token(page: Page, client: holdfast.Client, hold: Hold) -> None:
    hold(client.lock("secret-project"))
    page.open("")
    page.shows("Not signed in.")
    page.open("?token=wrong")
    page.shows("Not signed in.")
    page.open()
    page.shows("secret-project")
    page.driver.delete_all_cookies()
    page.open()  # the link was used
    page.shows("Not signed in.")
    assert "secret-project" not in page.text()


def test_another_site(client: holdfast.Client, hold: Hold, page: Page) -> None:
    """A page of another port on this host, which has the same cookies, can neither read nor act."""
    lease = hold(client.lock("target"))
    page.open()
    page.shows("target")
    with serving(app(client, token=None)) as other:
        page.driver.get(f"http://127.0.0.1:{other}/style.css")  # any page will do
        attack = """
            const done = arguments[arguments.length - 1], at = arguments[0];
            Promise.allSettled([
                fetch(at + "state", {credentials: "include"}).then(r => r.text()),
                fetch(at + "locks/x/break", {method: "POST", credentials: "include"})
                    .then(r => r.text()),
                fetch(at + "locks/x/break", {method: "POST", credentials: "include",
                                            mode: "no-cors"})
                    .then(r => r.text()).then(text => { if (!text) throw Error("opaque"); }),
            ]).then(all => done(all.map(each => each.status)));
        """
        page.driver.set_script_timeout(60)
        assert page.driver.execute_async_script(attack, page.address) == 3 * ["rejected"]
    lease.ensure_held()


def test_a_name_that_is_hostile(client: holdfast.Client, hold: Hold, page: Page) -> None:
    """It is shown as text, wherever it is shown."""
    attack = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
    hold(client.lock(attack, label="<i>blue</i>"))
    hold(client.lock("turned\u202earound\n"))
    page.open()
    page.shows(attack)
    page.shows("(<i>blue</i>)")
    page.shows("turned\\u202earound\\n")
    page.script(
        "[...document.querySelectorAll('#rows a')].find(a => a.innerText[0] == '<').click()"
    )
    page.until("document.getElementById('lock-name').innerText == arguments[0]", attack)
    page.shows("Break …")
    page.find("#holders button").click()
    page.shows("It does not stop the holder.")
    assert page.driver.title == "holdfast"
    assert (
        page.script("document.querySelectorAll('main img, main script, main i, dialog img').length")
        == 0
    )
    assert page.complaints() == []


def test_ten_thousand_locks(client: holdfast.Client, hold: Hold, page: Page) -> None:
    """Only the visible rows exist; they stay the same elements while the table changes."""
    for i in range(10_000):
        hold(client.lock(f"order:{i:05}", ttl=3600))
    page.open()
    page.shows("10,000 locks")
    assert len(page.names()) < 60
    page.script("(window.first = document.querySelector('#rows tr'), true)")
    page.script("(document.getElementById('window').scrollTop = 1e9, true)")
    page.until("document.getElementById('rows').innerText.includes('order:09999')")
    assert len(page.names()) < 60
    assert page.script("window.first.isConnected")
    page.find("#search").send_keys("07777")
    page.until("document.querySelectorAll('#rows tr').length == 1")
    client.break_lock("order:07777")
    page.shows("No lock matches.")
    page.shows("0 of 9,999 locks")


def test_the_servers(page: Page) -> None:
    """Of a quorum: how each of them is, and how many more may fail."""

    def examine(text: str) -> None:
        page.find("#examine").click()
        page.shows(text)

    with RedisServer() as one, RedisServer() as two, RedisServer() as three:
        quorum = f"redlock://{one.address},{two.address},{three.address}"
        with serving(app(f"{quorum}?restart_guard=off", token=TOKEN, once=True)) as port:
            page.driver.get(f"http://127.0.0.1:{port}/?token={TOKEN}")
            examine("1 more may fail")
            assert all(server.address in page.text() for server in (one, two, three))
            assert page.text().count(" · clock ") == 3
            one.kill()
            examine("none to spare")
            page.shows("does not answer: ")
            two.kill()
            examine("no majority: 1 too few")
            two.start()
            examine("none to spare")
            page.driver.get("about:blank")  # else it asks a server that has ended
        with serving(app(quorum, token=TOKEN, once=True)) as port:
            page.driver.get(f"http://127.0.0.1:{port}/?token={TOKEN}")
            examine("restarted, no vote for ")
            page.shows("no majority: 2 too few")
    assert page.complaints() == []


def test_no_servers(page: Page) -> None:
    """An engine within the process has none."""
    page.open()
    page.find("#examine").click()
    page.shows("What can break the promise all the same")
    assert not page.find("#nodes").is_displayed()


def test_a_form_asks_for_a_token_that_stays(client: holdfast.Client, page: Page) -> None:
    with serving(app(client, token=TOKEN)) as port:
        page.driver.get(f"http://127.0.0.1:{port}/")
        page.find("#token").send_keys("wrong", ENTER)
        page.until("location.pathname == '/login' && document.readyState == 'complete'")
        page.find("#token").send_keys(TOKEN, ENTER)
        page.shows("No lock is held.")
        page.shows("read-only")


def test_a_session_that_has_ended(client: holdfast.Client, page: Page) -> None:
    """The page asks for the token again."""
    with serving(app(client, token=TOKEN)) as port:
        page.driver.get(f"http://127.0.0.1:{port}/")
        page.find("#token").send_keys(TOKEN, ENTER)
        page.shows("No lock is held.")
        page.driver.delete_all_cookies()
        page.shows("Token (from the token file of this server)")


def test_a_server_that_does_not_answer(client: holdfast.Client, page: Page) -> None:
    """The page says so, and asks again: a connection that hangs does not stop it."""
    application, hung = app(client, token=TOKEN, once=True), threading.Event()

    async def sometimes(scope: Any, receive: Any, send: Any) -> None:
        while hung.is_set() and scope.get("path") == "/state":  # noqa: ASYNC110 - another thread ends it
            await asyncio.sleep(0.1)
        await application(scope, receive, send)

    with serving(application, sometimes) as port:
        page.driver.get(f"http://127.0.0.1:{port}/?token={TOKEN}")
        page.shows("No lock is held.")
        hung.set()
        try:
            page.shows("no connection to holdfast ui; trying again")
        finally:
            hung.clear()
        page.lacks("no connection to holdfast ui")


def test_a_foreign_lock_without_an_end(page: Page) -> None:
    with RedisServer() as server, holdfast.Client(server.url, ttl=60) as client:
        with client.lock("endless"):
            pass
        server.command("SET", "holdfast:endless", "foreign")
        with client.lock("job"), serving(app(client, token=TOKEN, once=True)) as port:
            page.driver.get(f"http://127.0.0.1:{port}/?token={TOKEN}")
            page.shows("no end")
            bar = "document.querySelector('#rows .bar span').style.width"
            assert page.until(bar) == "100%"
            page.find("th[data-key=left] button").click()
            assert page.names() == ["job", "endless"]
            page.find("th[data-key=left] button").click()
            assert page.names() == ["endless", "job"]
            page.find("#rows tr").click()
            page.shows("no end")
            assert page.complaints() == []
