"""The page as an ASGI application: what is asked for, and what is answered."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import asdict
from importlib import resources
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import (
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Route

from holdfast.breaking import LIMITS, LONGEST_REASON, Audit, break_held
from holdfast.client import Client
from holdfast.errors import LockError
from holdfast.options import printable
from holdfast.ui.access import LINK_NEEDED, Access
from holdfast.ui.feed import Feed

LARGEST_BODY = 10_000

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def app(
    source: Client | str | None = None,
    *,
    token: str | None,
    once: bool = False,
    hosts: Iterable[str] | None = None,
    allow_break: bool = False,
    audit_log: str | os.PathLike[str] | None = None,
) -> Starlette:
    """An ASGI application that shows all locks: to be served, or mounted below any path.

    Args:

    - `source`: a client, or a URL for one. Default: as for a client.
    - `token`: what users sign in with, 20 characters or more. None: they are not asked, because the
      application around it has done so.
    - `once`: the token works once, in a link `?token=...`. Default: it works again and again, and a
      form asks for it.
    - `hosts`: the host names that it answers to. Default: any.
    - `allow_break`: whether locks can be broken. Default: no.
    - `audit_log`: a file for a line of JSON about each lock that was broken. They are also logged,
      as `holdfast.audit`. Default: none.
    """
    client = source if isinstance(source, Client) else Client(source)
    feed = Feed(client, may_break=allow_break, owned=client is not source)
    access = Access(token, once=once, hosts=hosts)
    pages = _Pages(feed, access, Audit(audit_log) if allow_break else None)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        feed.start()
        yield
        await feed.close()

    return Starlette(
        routes=[
            Route("/", pages.index),
            Route("/login", pages.login, methods=["POST"]),
            Route("/{name:str}.{kind:str}", pages.file),
            Route("/state", access.guard(pages.state)),
            Route("/locks/{id}", access.guard(pages.lock)),
            Route("/locks/{id}/break", access.guard(pages.break_lock), methods=["POST"]),
            Route("/examine", access.guard(pages.examine), methods=["POST"]),
        ],
        middleware=[Middleware(access.wrap), Middleware(GZipMiddleware, compresslevel=1)],
        lifespan=lifespan,
    )


class _Pages:
    def __init__(self, feed: Feed, access: Access, audit: Audit | None) -> None:
        self._feed = feed
        self._access = access
        self._audit = audit
        self._examining = asyncio.Lock()

    async def index(self, request: Request) -> Response:
        """The page; or a redirect to it, once the token was exchanged for a cookie."""
        access = self._access
        if access.session(request) is not None:
            here = "token" in request.query_params
            return RedirectResponse("./", 303) if here else _static("page.html")
        if access.by_form:
            return _static("login.html", 401)
        if not access.exchange(request.query_params.get("token", "")):
            return PlainTextResponse(LINK_NEEDED, 401)
        response = RedirectResponse("./", 303)
        access.sign_in(request, response)
        return response

    async def login(self, request: Request) -> Response:
        """The form was sent. Which page it came from does not matter: it has the token, or not.
        (Without a referrer, the `Origin` of a form is `null`.)"""
        token = parse_qs((await _body(request)).decode(errors="replace")).get("token", [""])[0]
        if not self._access.by_form or not self._access.exchange(token):
            return _static("login.html", 403)
        response = RedirectResponse("./", 303)
        self._access.sign_in(request, response)
        return response

    async def file(self, request: Request) -> Response:
        """Style, script and icon: there is nothing secret in them."""
        name = f"{request.path_params['name']}.{request.path_params['kind']}"
        known = name in ("page.js", "style.css", "icon.svg")
        return _static(name) if known else PlainTextResponse("Not found.", 404)

    async def state(self, request: Request) -> Response:
        """What was seen last: a page asks every second, and is sent nothing if it has that."""
        self._feed.start()
        version, body = self._feed.answer
        headers = {"ETag": f'"{version}"', "Now": str(time.time())}
        if version in request.headers.get("If-None-Match", ""):
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type="application/json")

    async def lock(self, request: Request) -> Response:
        """The history of a lock."""
        name = self._feed.name(request.path_params["id"])
        if name is None:
            return PlainTextResponse("No lock of that name was seen.", 404)
        history = await self._feed.history(request.path_params["id"])
        return JSONResponse({"name": printable(name), "history": history})

    async def break_lock(self, request: Request) -> Response:
        """Break it, if its name was typed and a reason was given."""
        if self._audit is None:
            return PlainTextResponse("Refused: this page may only look (--allow-break).", 403)
        asked = _texts(await _body(request), "name", "holder", "reason")
        if asked is None:
            return PlainTextResponse("Not understood: a JSON object of texts is needed.", 400)
        name = self._feed.name(request.path_params["id"])
        if name is None or asked["name"] != printable(name):
            return PlainTextResponse("Not broken: that is not the name of the lock.", 409)
        reason = asked["reason"].strip()
        if not 0 < len(reason) <= LONGEST_REASON:
            text = f"Not broken: give a reason, of at most {LONGEST_REASON} characters."
            return PlainTextResponse(text, 400)
        who = {
            "session": self._access.session(request),
            "remote": request.client.host if request.client else "",
            "user": printable(str(getattr(request.scope.get("user"), "display_name", ""))),
        }
        try:
            broken, outcome = await asyncio.to_thread(
                break_held,
                self._feed.client,
                name,
                holders=[asked["holder"]],
                audit=self._audit,
                who=who,
                reason=reason,
            )
        except LockError as error:
            broken, outcome = False, printable(str(error))
        text = f"{outcome[0].upper()}{outcome[1:]}."
        if broken:
            return PlainTextResponse(f"{text} The holder was not stopped. {LIMITS}")
        return PlainTextResponse(text, 409)

    async def examine(self, request: Request) -> Response:
        """The servers, and what `holdfast doctor` finds. One examination at a time."""
        client = self._feed.client
        async with self._examining:
            servers = await self._feed.servers()
            findings = await asyncio.to_thread(client.diagnose)
        return JSONResponse(
            {
                **servers,
                "broken_by": client.guarantees.broken_by,
                "findings": [
                    {field: printable(text) for field, text in asdict(finding).items()}
                    for finding in findings
                ],
            }
        )


def _static(name: str, status: int = 200) -> Response:
    content = resources.files("holdfast.ui").joinpath("static", name).read_bytes()
    return Response(content, status, media_type=_TYPES[name.rpartition(".")[2]])


async def _body(request: Request) -> bytes:
    """The body; nothing if it is too large."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_BODY:
            return b""
    return body


def _texts(body: bytes, *names: str) -> dict[str, str] | None:
    try:
        found: Any = json.loads(body)
    except ValueError:
        return None
    if not isinstance(found, dict) or any(not isinstance(found.get(each), str) for each in names):
        return None
    return {each: found[each] for each in names}
