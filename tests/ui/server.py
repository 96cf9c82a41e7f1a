"""The page on a real server, and a browser that does only what it is told."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import uvicorn

from tests.cli.processes import eventually

T = TypeVar("T")

TOKEN = "a-token-of-some-length"


class Visitor:
    """Sends requests, and keeps the cookie that it was given."""

    def __init__(self, port: int, path: str = "/") -> None:
        self.port = port
        self.path = path
        self.cookie = ""

    def send(
        self, method: str, path: str, body: object = None, **headers: str | None
    ) -> http.client.HTTPResponse:
        """A request as the page would send it. `Host=None` and so on leave a header out."""
        usual: dict[str, str | None] = {
            "Host": f"127.0.0.1:{self.port}",
            "Cookie": self.cookie,
            "Connection": "close",
        }
        if method == "POST":
            usual["Origin"] = f"http://127.0.0.1:{self.port}"
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.putrequest(method, self.path + path, skip_host=True)
        data = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        connection.putheader("Content-Length", str(len(data)))
        for name, value in {**usual, **given}.items():
            if value:
                connection.putheader(name, value)
        connection.endheaders(data)
        response = connection.getresponse()
        connection.close()  # the response keeps the socket until it is closed itself
        return response

    def status(self, method: str, path: str, body: object = None, **headers: str | None) -> int:
        with self.send(method, path, body, **headers) as response:
            return response.status

    def sign_in(self, token: str = TOKEN) -> http.client.HTTPResponse:
        with self.send("GET", f"?token={token}") as response:
            self.cookie = (response.headers["Set-Cookie"] or "").partition(";")[0]
        return response

    def state(self) -> dict[str, Any]:
        """What the page is sent."""
        with self.send("GET", "state") as response:
            assert response.status == 200, response.read()
            return dict(json.load(response))

    def until(self, condition: Callable[[dict[str, Any]], T]) -> T:
        """Ask as the page does, until what it is sent gives something true."""
        return eventually(lambda: condition(self.state()))

    def find(self, name: str) -> dict[str, Any]:
        """What the page is sent about a lock, as soon as it is."""
        return self.until(lambda data: next((e for e in data["rows"] if e["name"] == name), {}))


@contextmanager
def serving(application: Any, mounted: Any = None) -> Iterator[int]:
    """Serve it on a free port."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(mounted or application, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@contextmanager
def signed_in(application: Any) -> Iterator[Visitor]:
    """Serve it for a visitor, whose token is used."""
    with serving(application) as port:
        visitor = Visitor(port)
        visitor.sign_in()
        yield visitor
