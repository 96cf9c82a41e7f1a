"""Who may see the page, and who may change something: token, session, host, origin.

A token, which may be good for one use only, is exchanged for a cookie. Sessions are signed, and
kept nowhere. A request that changes something must come from our own page: browsers say where each
comes from, in headers that no page can set.
"""

import hashlib
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]

SESSION = 12 * 3600
"""Seconds after which a session ends."""

SHORTEST_TOKEN = 20
"""In characters. An empty one would let every visitor in."""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

LINK_NEEDED = (
    "Not signed in. Open the link that `holdfast ui` printed. It works once: if it was used, start"
    " `holdfast ui` again for another one."
)


class Access:
    """The rules; its arguments are those of `app`."""

    def __init__(
        self, token: str | None, *, once: bool = False, hosts: Iterable[str] | None = None
    ) -> None:
        if token is not None and len(token) < SHORTEST_TOKEN:
            raise ValueError(f"token: must have at least {SHORTEST_TOKEN} characters")
        self.by_form = token is not None and not once
        self._token = token
        self._key = secrets.token_bytes(32)
        if token is not None and not once:
            # With a token that stays, sessions outlive a restart, and are good for every worker.
            self._key = hashlib.sha256(b"holdfast ui" + token.encode()).digest()
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)
        # Cookies do not know ports: two servers on one host must not overwrite each other's.
        self._cookie = f"holdfast-{self._sign('cookie')[:8]}"

    def wrap(self, app: ASGIApp) -> ASGIApp:
        """The application, with the headers on all responses, and only under its own names."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            async def send_with_headers(message: Message) -> None:
                if message["type"] == "http.response.start":
                    MutableHeaders(scope=message).update(HEADERS)
                await send(message)

            if scope["type"] == "http" and not self._knows_host(Request(scope)):
                refusal = PlainTextResponse("This server does not have that name.", 421)
                await refusal(scope, receive, send_with_headers)
            else:
                await app(scope, receive, send_with_headers)

        return guarded

    def session(self, request: Request) -> str | None:
        """The id of the session that the request belongs to; empty if none is needed."""
        if self._token is None:
            return ""
        session, _, signature = request.cookies.get(self._cookie, "").partition(".")
        if not hmac.compare_digest(signature.encode(), self._sign(f"session {session}").encode()):
            return None
        began = int(session.partition("-")[0], 16)
        return session if time.time() - began < SESSION else None

    def exchange(self, token: str) -> bool:
        """Whether this is the token. One that is good for one use is used now."""
        expected = self._token or ""
        if not hmac.compare_digest(token.encode(errors="replace"), expected.encode()):
            return False
        if not self.by_form:
            self._token = secrets.token_urlsafe()  # which is told to no user
        return True

    def sign_in(self, request: Request, response: Response) -> None:
        """Begin a session."""
        session = f"{int(time.time()):x}-{secrets.token_hex(8)}"
        response.set_cookie(
            self._cookie,
            f"{session}.{self._sign(f'session {session}')}",
            max_age=SESSION,
            path=f"{request.scope.get('root_path', '')}/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )

    def guard(self, handler: Handler) -> Handler:
        """The handler, for sessions only, and not for other sites."""

        async def guarded(request: Request) -> Response:
            if self.session(request) is None:
                return PlainTextResponse(LINK_NEEDED, 401)
            if not is_same_origin(request):
                return PlainTextResponse("Refused: the request came from another site.", 403)
            return await handler(request)

        return guarded

    def _knows_host(self, request: Request) -> bool:
        if self._hosts is None:
            return True
        try:
            name = urlsplit(f"//{request.headers.get('host', '')}").hostname
        except ValueError:  # as for "["
            return False
        return name in self._hosts

    def _sign(self, text: str) -> str:
        return hmac.new(self._key, text.encode(errors="replace"), hashlib.sha256).hexdigest()


def is_same_origin(request: Request) -> bool:
    """Whether the page that sent this is our own. Browsers say so on every request that changes
    something, by `Origin`, and most on others, too, by `Sec-Fetch-Site`."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    if origin is None:
        return request.method == "GET"
    host = request.headers.get("host", "").lower()
    return bool(host) and origin.lower() in (f"http://{host}", f"https://{host}")
