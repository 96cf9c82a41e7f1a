"""Who may see the page: token, cookie, host, origin; and what stands on every response."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

import holdfast
from holdfast.ui import access as rules
from holdfast.ui import app
from tests.equipment.django import configure_django

from .server import TOKEN, Visitor, serving

PATHS = ["", "state", "locks/0123"]
BREAK = "locks/0123/break"


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_shown_without_a_session(port: int, path: str) -> None:
    assert Visitor(port).status("GET", path) == 401


def test_nothing_is_changed_without_a_session(port: int) -> None:
    assert Visitor(port).status("POST", BREAK, {}) == 401
    assert Visitor(port).status("POST", "examine") == 401


def test_the_token_works_once(port: int) -> None:
    first = Visitor(port)
    response = first.sign_in()
    assert response.status == 303
    assert response.headers["Location"] == "./"
    cookie = response.headers["Set-Cookie"]
    assert TOKEN not in cookie
    for part in ("HttpOnly", "SameSite=strict", "Path=/", "Max-Age"):
        assert part in cookie
    assert first.status("GET", "") == 200
    assert first.status("GET", f"?token={TOKEN}") == 303  # a bookmark of the signed-in
    assert Visitor(port).status("GET", f"?token={TOKEN}") == 401


@pytest.mark.parametrize("token", ["", "wrong", TOKEN + "x", TOKEN.upper(), "%00", "%ff"])
def test_a_wrong_token(port: int, token: str) -> None:
    assert Visitor(port).status("GET", f"?token={token}") == 401
    assert Visitor(port).status("POST", "login", f"token={TOKEN}".encode()) == 403  # no form here
    Visitor(port).sign_in()  # it was not used up


@pytest.mark.parametrize("cookie", ["", "x", "x.y", "6564-00.", "-.", "6564-00." + 64 * "0"])
def test_a_forged_cookie(visitor: Visitor, cookie: str) -> None:
    name = visitor.cookie.partition("=")[0]
    assert visitor.status("GET", "", Cookie=f"{name}={cookie}") == 401


def test_a_cookie_that_was_changed(visitor: Visitor) -> None:
    name, _, value = visitor.cookie.partition("=")
    session, _, signature = value.partition(".")
    assert visitor.status("GET", "", Cookie=f"{name}={session}0.{signature}") == 401


def test_a_session_ends(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "SESSION", 0)
    assert visitor.status("GET", "") == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "127.0.0.1@evil", "["]
)
@pytest.mark.parametrize("path", [*PATHS, "page.js"])
def test_another_host_name(visitor: Visitor, host: str, path: str) -> None:
    """A name that an attacker makes point here."""
    assert visitor.status("GET", path, Host=host) in (400, 421)


def test_own_host_names(visitor: Visitor) -> None:
    for host in ("localhost", "LOCALHOST:80", "127.0.0.1:9"):
        assert visitor.status("GET", "", Host=host) == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site", "nonsense"])
def test_another_site_reads_nothing(visitor: Visitor, site: str) -> None:
    """`same-site` is a server on another port of this host."""
    assert visitor.status("GET", "state", Sec_Fetch_Site=site) == 403
    assert visitor.status("GET", "locks/0123", Sec_Fetch_Site=site) == 403


def test_another_site_changes_nothing(visitor: Visitor) -> None:
    def post(**headers: str | None) -> int:
        return visitor.status("POST", BREAK, **headers)

    assert post(Origin="http://evil.example") == 403
    assert post(Origin="http://127.0.0.1:1") == 403
    assert post(Origin="null") == 403
    assert post(Origin=None) == 403
    assert post(Sec_Fetch_Site="cross-site") == 403
    assert post(Sec_Fetch_Site="same-site") == 403
    assert post(Sec_Fetch_Site="same-origin") == 400  # there is nothing in it


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("GET", "page.js"), ("GET", "nothing"), ("POST", BREAK)],
)
def test_headers_of_every_response(visitor: Visitor, method: str, path: str) -> None:
    for who in (visitor, Visitor(visitor.port)):
        with who.send(method, path) as response:
            policy = response.headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none'; script-src 'self';")
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert response.headers["Referrer-Policy"] == "no-referrer"
            assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "path", ["page.html", "login.html", "../access.py", "..%2faccess.py", "%2e%2e/access.py"]
)
def test_only_known_files(port: int, path: str) -> None:
    assert Visitor(port).status("GET", path) == 404


def test_a_token_that_stays(client: holdfast.Client) -> None:
    """A form asks for it; sessions are good for another worker, too."""
    with serving(app(client, token=TOKEN)) as port, serving(app(client, token=TOKEN)) as other:
        visitor = Visitor(port)
        with visitor.send("GET", f"?token={TOKEN}") as response:
            assert response.status == 401  # not in a link, where it would be kept
            assert b'type="password"' in response.read()
        wrong, right = b"token=wrong", f"token={TOKEN}".encode()
        assert visitor.status("POST", "login", wrong) == 403
        assert visitor.status("POST", "login", right + b"&x=" + 20_000 * b"x") == 403
        with visitor.send("POST", "login", right, Origin="null") as response:
            assert response.status == 303
            visitor.cookie = response.headers["Set-Cookie"].partition(";")[0]
        assert visitor.status("GET", "") == 200
        visitor.port = other
        assert visitor.status("GET", "") == 200


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("token", ["", "short"])
def test_a_short_token(client: holdfast.Client, token: str, once: bool) -> None:
    """A variable that is not set must not let every visitor in."""
    with pytest.raises(ValueError, match="token: must have at least 20 characters"):
        app(client, token=token, once=once)


def test_mounted_below_a_path(client: holdfast.Client) -> None:
    """The application around it lets users in: they need no cookie, of any worker."""
    page = app(client, token=None, allow_break=True)
    with (
        serving(page, Starlette(routes=[Mount("/ops/locks", page)])) as port,
        client.lock("report"),
    ):
        visitor = Visitor(port, "/ops/locks/")
        assert visitor.find("report")["kind"] == "lock"
        with visitor.send("GET", "") as response:
            assert (response.status, response.headers["Set-Cookie"]) == (200, None)
        assert visitor.status("GET", "page.js") == 200
        path = f"locks/{visitor.find('report')['id']}/break"
        assert visitor.status("POST", path, Origin="http://evil.example") == 403
        asked = {"name": "report", "holder": "another", "reason": "it hangs"}
        assert visitor.status("POST", path, asked) == 409


def test_mounted_beside_django(client: holdfast.Client) -> None:
    """As the documentation shows it."""
    configure_django()
    from django.core.handlers.asgi import ASGIHandler
    from django.http import HttpRequest, HttpResponse
    from django.test import override_settings
    from django.urls import path

    def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse("of Django")

    page = app(client, token=TOKEN)
    site = (path("orders/", view),)
    with (
        override_settings(ROOT_URLCONF=site, ALLOWED_HOSTS=["127.0.0.1"]),
        serving(page, Starlette(routes=[Mount("/locks", page), Mount("/", ASGIHandler())])) as port,
        client.lock("report"),
    ):
        visitor = Visitor(port, "/locks/")
        assert visitor.status("GET", "state") == 401
        with visitor.send("POST", "login", f"token={TOKEN}".encode()) as response:
            cookie = response.headers["Set-Cookie"] or ""
        assert "Path=/locks/;" in cookie
        visitor.cookie = cookie.partition(";")[0]
        assert visitor.find("report")["kind"] == "lock"
        with Visitor(port).send("GET", "orders/") as response:
            assert response.read() == b"of Django"


def test_links_are_relative() -> None:
    for file in (Path(rules.__file__).parent / "static").iterdir():
        text = file.read_text()
        assert "//" not in text.replace("http://www.w3.org/2000/svg", "").replace("// ", "")
        for quote in "\"'`":
            assert f"={quote}/" not in text
            assert f"({quote}/" not in text
        assert "innerHTML" not in text


@pytest.mark.parametrize("origin", ["null", "file://", "http://", "http://["])
def test_a_request_without_a_host_has_no_origin(origin: str) -> None:
    headers = [(b"origin", origin.encode())]
    for host in ([], [(b"host", b"")]):
        request = Request({"type": "http", "method": "POST", "headers": headers + host})
        assert not rules.is_same_origin(request)
